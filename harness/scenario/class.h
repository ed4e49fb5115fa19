#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace lockstep::scenario {

/// Kind of a difference.
enum class Class {
  kSemantic,        ///< another function is computed: a bug, or another recipe
  kRounding,        ///< the same function in another order or precision
  kNondeterminism,  ///< the same program gives other bits when it runs again
  kEnvironment,     ///< machine, library or variables differ
  kLiveness,        ///< crash, hang, lost rank
  kExpected,        ///< a difference by design, that must be named
  kUndecided,       ///< rounding or a mistake: undecided. No cause has it, and no check can expect it
};

struct ClassInfo {
  Class class_;
  std::string_view name;
};

/// One row for each class, in order; those that an author may expect are the schema's.
inline constexpr std::array<ClassInfo, 7> kClasses = {{{Class::kSemantic, "semantic"},
                                                       {Class::kRounding, "rounding"},
                                                       {Class::kNondeterminism, "nondeterminism"},
                                                       {Class::kEnvironment, "environment"},
                                                       {Class::kLiveness, "liveness"},
                                                       {Class::kExpected, "expected"},
                                                       {Class::kUndecided, "undecided"}}};

std::string_view name_of(Class class_);
std::optional<Class> class_named(std::string_view name);

}  // namespace lockstep::scenario
