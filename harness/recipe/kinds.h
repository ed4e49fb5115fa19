#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "harness/base/json.h"

/// Closed lists of a recipe as enums. The build makes them from the schema, so a switch without `default` lists every
/// place that a new kind must fill.
namespace lockstep::recipe {

/// Names of an enum's values, in order. kUnknown comes first, and has no name: the kind is not given.
template <typename Kind>
inline constexpr std::array<std::string_view, 0> kNames{};

#include "kinds/recipe.inc"

template <typename Kind>
concept Named = !kNames<Kind>.empty();

template <Named Kind>
constexpr std::string_view name_of(Kind kind) {
  return kNames<Kind>[static_cast<std::size_t>(kind)];
}

/// The value of a name in the schema; kUnknown of another.
template <Named Kind>
constexpr Kind named(std::string_view name) {
  const auto found = std::find(kNames<Kind>.begin(), kNames<Kind>.end(), name);
  return found == kNames<Kind>.end() ? Kind::kUnknown : static_cast<Kind>(found - kNames<Kind>.begin());
}

/// The value under a key of a completed object.
template <Named Kind>
Kind kind_at(const Json& object, const char* key) {
  return named<Kind>(object.at(key).get_ref<const std::string&>());
}

/// Text of a value, for messages.
template <Named Kind>
std::string text_of(Kind kind) {
  return std::string(name_of(kind));
}

/// A choice out of a closed list, with the keys of its branch in the schema; all defaults are filled in.
template <Named Kind>
struct ChoiceOf {
  Kind kind = Kind::kUnknown;
  Json options;

  bool operator==(const ChoiceOf&) const = default;
};

using ModelChoice = ChoiceOf<ModelKind>;
using DataChoice = ChoiceOf<DataKind>;
using SamplerChoice = ChoiceOf<SamplerKind>;
using OptimizerChoice = ChoiceOf<OptimizerKind>;
using ScheduleChoice = ChoiceOf<ScheduleKind>;
using RateRuleChoice = ChoiceOf<RateRuleKind>;

/// Reads a completed object with a "kind".
template <Named Kind>
ChoiceOf<Kind> choice_from(const Json& object) {
  return {.kind = kind_at<Kind>(object, "kind"), .options = object};
}

}  // namespace lockstep::recipe
