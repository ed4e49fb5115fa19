#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/recipe/train_spec.h"
#include "harness/scenario/check_kind.h"
#include "harness/scenario/class.h"
#include "harness/scenario/program_spec.h"

namespace lockstep::scenario {

/// How the processes of one run are placed.
struct LaunchSpec {
  bool executed = false;       ///< each rank is a program that is executed, not forked by a server
  std::string other_launcher;  ///< "torchrun", …; "": lockstep starts the ranks
  std::int64_t nodes = 1;
  std::string rendezvous;            ///< of torchrun's agents
  std::int64_t restarts = 0;         ///< that torchrun may do
  std::vector<std::string> options;  ///< of the other launcher
  std::vector<std::int64_t> arrival_delay_ms;
  std::vector<std::int64_t> step_delay_ms;
  std::map<std::string, std::string> environment;
  std::map<std::int64_t, std::map<std::string, std::string>> rank_environment;  ///< by rank, over the former
  bool reverse_environment = false;
  std::string directory;
  std::optional<double> deadline_s;
  double stall_s = 0;
};

/// The first key of a launch that only ranks started by lockstep itself can obey; "" if there is none.
std::string own_launch_key(const LaunchSpec& launch);

/// Description of a run besides its trace: its owner's statement of what it computes. Laws and diagnosis compare the
/// trace with it.
struct Promises {
  std::string name;  ///< of the variant
  std::int64_t world_size = 1;
  recipe::TrainSpec train;
  std::optional<std::set<std::string>> known;  ///< parts of `train` that are known: "batch". Nothing: all of them

  std::optional<std::set<std::string>> layout;  ///< how ranks share the model: "replicate", "shard", "tensor"

  std::optional<recipe::OptimizerChoice> loaded_optimizer;  ///< that its checkpoint holds; nothing: its own, or unknown

  bool knows(const std::string& part) const { return !known || known->contains(part); }

  /// The last step that a trace of it holds. A program's recorder does not know which one will be the last.
  std::int64_t last_recorded_step() const {
    return known ? (train.steps - 1) / train.record.every * train.record.every : train.steps - 1;
  }
};

/// One training of a scenario, complete.
struct Variant : Promises {
  Json train_json;                     ///< completed "train"; what the worker gets. Null for a program
  std::optional<ProgramSpec> program;  ///< instead of our worker
  Json program_json;                   ///< completed "program", and the "promises" as written
  Json promises_json;
  Json launch_json;  ///< completed "launch"
  LaunchSpec launch;
  std::string mutation_of;              ///< variant that it is a mutation of; empty: none
  std::optional<std::int64_t> repeats;  ///< of a mutation, where not the scenario's

  /// The part of the scenario that says what is computed, and its definition in the schema.
  const Json& recipe_json() const { return program ? program_json : train_json; }
  const char* recipe_definition() const { return program ? "program" : "train"; }
};

/// A failure that the author knows of, or wants.
struct Expectation {
  std::string reason;
  std::optional<std::string> until;  ///< "2027-01-31"
  std::optional<std::string> cause;  ///< id, or "unknown"
  std::optional<Class> class_;
  std::optional<std::int64_t> step;
  std::optional<trace::Channel> channel;
  std::optional<std::string> tensor;
  std::optional<std::int64_t> rank;
};

/// A check as written, with its variants resolved.
struct CheckSpec {
  CheckKind that = CheckKind::kEqual;
  std::string name;                      ///< that practices know it by; its kind, where none is given
  std::vector<std::string> variants;     ///< names of existing variants, in the order of the scenario
  std::vector<trace::Channel> channels;  ///< as written; empty: all that the check can compare
  std::optional<double> factor;
  std::vector<std::string> laws;  ///< by name; empty: all that the recipe has a use for
  std::string straight;
  std::string interrupted;
  std::string of;  ///< the variant whose golden is the others', too; empty: each has its own
  std::optional<Expectation> expect;

  const CheckTraits& traits() const { return traits_of(that); }
};

/// A mistake that some checks must find.
struct Mutation {
  std::string name;                    ///< the mistake, in words
  std::map<std::string, Json> change;  ///< patch of each variant that it changes (RFC 7386: null removes)
};

/// A habit of people that a scenario reproduces, and what shows that it does.
struct Practice {
  std::string name;
  std::vector<std::size_t> proven_by;  ///< indices of checks
  std::vector<Mutation> mutations;     ///< each turns one of these checks red
};

/// A scenario file, validated and complete; nothing further down looks at the file again.
struct Scenario {
  std::string name;
  std::string description;
  std::vector<Practice> practices;  ///< that it reproduces
  std::filesystem::path file;
  std::string sha256;  ///< of the file, without the overrides
  std::vector<std::string> overrides;
  std::vector<Variant> variants;
  std::int64_t repeats = 1;
  bool may_be_unsupported = false;
  std::vector<CheckSpec> checks;

  const Variant& variant(const std::string& name) const;
  std::int64_t repeats_of(const Variant& variant) const { return variant.repeats.value_or(repeats); }
};

/// A completed variant as its document: {"world_size": …, "train": …, "launch": …}.
Json document_of(const Variant& variant);

/// The variant with a patch of {"world_size": …, "train": …, "launch": …} merged in (RFC 7386: null removes). *Throws*:
/// InputError where that is no training.
Variant patched(const Variant& variant, const Json& patch, const std::string& file);

/// The variant with a mutation's change, read as a variant's changes are: another "kind" replaces the whole object.
Variant mutated(const Variant& variant, const Json& change, const std::string& file);

/// The promises of a variant, with the optimizer that its checkpoint holds.
Promises with_loaded_optimizer(const Scenario& scenario, const Variant& variant);

/// Variants whose checkpoints it takes: the one that it loads from, and the one that it follows.
std::vector<std::string> sources_of(const Variant& variant);

/// Updates that a variant has done before its first own one.
std::int64_t updates_before(const Variant& variant, const Scenario& scenario);

/// Updates in the checkpoint that a user who loads from `source` expects: the number asked for, or the newest; 0 if
/// unknown.
std::int64_t newest_saved(const recipe::LoadSpec& load, const Promises& source);

/// The words after "lockstep run" that name this scenario again, quoted for a shell.
std::string arguments_of(const Scenario& scenario, const std::filesystem::path& golden_root);

/// Overrides that change what is computed, and that no file holds: not those of repeats and of the launcher.
std::vector<std::string> overrides_of_recipe(const Scenario& scenario);

/// Reads a scenario. `overrides` are "dotted.path=value" of the file's own keys; a value that is not JSON is a string.
/// *Throws*: InputError that says what, where, expected, actual and the nearest valid name.
Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

}  // namespace lockstep::scenario
