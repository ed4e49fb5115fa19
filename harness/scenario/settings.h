#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// One value of a completed scenario.
struct Setting {
  std::string path;    ///< "variants.w2.train.optimizer.lr"
  Json value;          ///< a number, a text, …; or a list of those
  std::string origin;  ///< "scenarios/x.jsonc:12:7", "--set train.optimizer.lr=0.2", "default"
};

/// Values of a scenario and of each of its variants, defaults too, sorted by path within each of them. Checks and
/// practices are left out.
/// *Throws*: as load_scenario.
std::vector<Setting> settings_of(const std::filesystem::path& file, const std::vector<std::string>& overrides);

}  // namespace lockstep::scenario
