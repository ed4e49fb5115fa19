#include "harness/scenario/class.h"

namespace lockstep::scenario {
namespace {

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i].class_ != static_cast<Class>(i)) return false;
  }
  return kClasses.back().class_ == Class::kUndecided;
}
static_assert(rows_are_in_order(), "kClasses needs one row for each class, in the order of the enumeration");

}  // namespace

std::string_view name_of(Class class_) { return kClasses[static_cast<std::size_t>(class_)].name; }

std::optional<Class> class_named(std::string_view name) {
  for (const ClassInfo& row : kClasses) {
    if (row.name == name) return row.class_;
  }
  return std::nullopt;
}

}  // namespace lockstep::scenario
