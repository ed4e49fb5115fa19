#include "harness/compare/class.h"

#include <algorithm>
#include <iterator>

namespace lockstep::compare {
namespace {

struct ClassName {
  Class class_;
  std::string_view name;
};

constexpr ClassName kClassNames[] = {
    {Class::kSemantic, "semantic"},       {Class::kRounding, "rounding"}, {Class::kNondeterminism, "nondeterminism"},
    {Class::kEnvironment, "environment"}, {Class::kLiveness, "liveness"}, {Class::kExpected, "expected"},
};

}  // namespace

std::string_view name_of(Class class_) {
  const auto found = std::find_if(std::begin(kClassNames), std::end(kClassNames),
                                  [&](const ClassName& c) { return c.class_ == class_; });
  return found->name;
}

}  // namespace lockstep::compare
