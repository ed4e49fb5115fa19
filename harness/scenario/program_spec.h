#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/recipe/record_spec.h"
#include "harness/recipe/train_spec.h"

namespace lockstep::scenario {

/// Values of the placeholders of a program's texts, by name: {"world_size", "2"}, {"folder:half", "/runs/..."}.
using Placeholders = std::map<std::string, std::string>;

/// A training program that is not ours: a command that starts its ranks itself.
struct ProgramSpec {
  std::vector<std::string> command;  ///< with its options, placeholders not yet filled in
  std::map<std::string, std::string> environment;
  std::string cpu;                  ///< CpuProfile that bounds its libraries; empty: they choose by themselves
  std::string directory;            ///< to start it in, seen from the scenario's file
  std::vector<std::string> inputs;  ///< files and folders that it depends on, seen from `directory`
  std::int64_t stop_after = 0;      ///< updates after which the recorder ends it; 0: it ends by itself
  bool alone = true;                ///< no other program runs beside it
  std::string source;               ///< variant whose folder it is given a copy of: '{folder:VARIANT}'; empty: none
  recipe::RecordSpec record;
};

/// Reads a completed "program" object. *Throws*: InputError at `origin` for an unknown placeholder.
ProgramSpec program_spec_from(const Json& completed, const std::string& origin);

/// A change of a training, as variables that a program's libraries and its recorder follow. `train`: a patch of
/// "train", of which captures are left out: a program shows no operators. *Throws*: InputError for a change that no
/// variable makes.
std::map<std::string, std::string> variables_for(const Json& train);

/// Name of the placeholder of another variant's folder: "folder:half".
std::string folder_of(const std::string& variant);

/// A text with its placeholders filled in: '{world_size}' becomes '2', '{{' a brace. Other braces stay as they are.
/// *Throws*: InputError for a name in braces that `values` lacks.
std::string filled_in(const std::string& text, const Placeholders& values);

/// Recipe of a program's training, as far as it is promised. `completed`: the "promises" object; parts that `known`
/// lacks are left as they are in an empty recipe::TrainSpec.
recipe::TrainSpec train_spec_from_promises(const Json& completed, const std::set<std::string>& known);

}  // namespace lockstep::scenario
