#include "tests/support/part.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace lockstep::test {
namespace {

struct Part {
  std::size_t number = 0;  ///< from 0
  std::size_t of = 1;
};

/// *Throws*: a part that is misread would take no case, and that would be green.
Part part() {
  const char* text = std::getenv("LOCKSTEP_TEST_PART");
  if (text == nullptr) return {};
  Part part;
  char rest = 0;
  const bool read = std::sscanf(text, "%zu/%zu%c", &part.number, &part.of, &rest) == 2;
  if (!read || part.number < 1 || part.number > part.of)
    throw std::runtime_error("LOCKSTEP_TEST_PART: expected a part such as 2/4, found '" + std::string(text) + "'");
  --part.number;
  return part;
}

}  // namespace

bool takes_all() { return part().of == 1; }

bool in_part(std::size_t index) {
  const Part chosen = part();
  return (index + index / chosen.of) % chosen.of == chosen.number;
}

bool in_part(std::size_t index, std::size_t count) {
  const Part chosen = part();
  return count < chosen.of ? index == chosen.number % count : in_part(index);
}

}  // namespace lockstep::test
