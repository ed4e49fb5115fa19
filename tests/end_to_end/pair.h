#pragma once

#include <string>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {

/// Scenarios of two variants, of which a finding is tried again by control runs.
class PairEndToEnd : public EndToEnd {
 protected:
  /// The scenario with variants "one" and "other", and one check of them.
  static Json pair(const std::string& relation, const Json& one, const Json& other,
                   const Json& changes = Json::object()) {
    return scenario(merged({{{"variants", {{"one", one}, {"other", other}}},
                             {"checks", {check(relation, {{"variants", {"one", "other"}}})}}},
                            changes}));
  }
};

/// What a control run of a check has shown.
inline std::string shown_by(const Json& check, const std::string& control) {
  std::string shown;
  for (const Json& one : check.at("experiments")) {
    if (one.at("control") == control) shown += one.at("shows").get<std::string>() + "\n";
  }
  return shown;
}

inline Json on_ranks(int world_size) { return {{"world_size", world_size}}; }

}  // namespace lockstep::test
