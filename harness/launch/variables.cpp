#include "harness/launch/variables.h"

#include <algorithm>
#include <string_view>

#include <unistd.h>

#include "harness/launch/place/manual.h"

namespace lockstep::launch {

Environment whole_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));  // the first of a name counts, as in getenv
  }
  return environment;
}

Environment inherited_environment() {
  Environment environment = whole_environment();
  forget_own_place(environment);
  return environment;
}

std::string environment_entry(const std::string& name, const std::string& value) { return name + "=" + value; }

std::vector<std::string> environment_block(const Environment& environment, bool descending) {
  std::vector<std::string> block;
  for (const auto& [name, value] : environment) block.push_back(environment_entry(name, value));
  if (descending) std::reverse(block.begin(), block.end());
  return block;
}

}  // namespace lockstep::launch
