#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/audit/kind.h"

namespace lockstep::app {

/// Options that choose runs and outputs. Only the scenario says what a training computes.
struct RunOptions {
  std::vector<std::filesystem::path> scenarios;  ///< files, or folders whose *.json and *.jsonc are taken
  std::vector<std::string> overrides;
  std::filesystem::path out;          ///< folder for traces; empty: a temporary one, kept unless all agree
  std::filesystem::path golden_root;  ///< empty: that of each scenario's project (golden/root.h)
  std::filesystem::path worker;       ///< empty: beside lockstep
  std::filesystem::path json;         ///< "-": stdout
  std::string launcher;               ///< launch.kind of runs that choose none; "": as they say
  int jobs = 0;                       ///< ranks at once; 0: four for each core
  bool resume = false;                ///< goes on with the runs in `out` that a lockstep before this one left
};

struct JudgeOptions {
  RunOptions run;                ///< its `out` is not looked at
  std::filesystem::path traces;  ///< folder with the folders of the runs
  bool controls = false;         ///< starts control runs for what differs
};

struct EmitOptions {
  std::filesystem::path folder;  ///< as `run --prepare` makes it
  std::string manifest;          ///< "sbatch", "k8s"
  std::string name = "lockstep";
  std::int64_t nodes = 1;    ///< of sbatch
  std::string image, claim;  ///< of k8s
};

struct AuditOptions {
  RunOptions run;       ///< its scenarios: scenario files, or files of audits
  std::string variant;  ///< that holds the recipe; empty: the first
  audit::Kind kind = audit::Kind::kScaling;
  std::vector<std::int64_t> ranks;  ///< empty: as the audit chooses
  std::int64_t steps = 0;           ///< updates of each run; 0: 6
  std::vector<std::string> only;    ///< lines, by the beginnings of their ids; empty: all
  std::filesystem::path markdown;
  std::filesystem::path chart;  ///< SVG
};

struct AcceptOptions {
  RunOptions run;
  std::string reason;
  std::vector<std::string> variants;  ///< empty: all that a golden check names
  bool in_ci = false;                 ///< accepts although this is a CI job
};

struct DiffOptions {
  std::filesystem::path left;
  std::filesystem::path right;
  std::vector<std::string> channels;
  std::filesystem::path json;
};

struct ShowOptions {
  std::filesystem::path trace;
  std::optional<std::int64_t> step;
  std::string channel;
  bool header = false;
};

struct CheckOptions {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path json;
};

struct ExplainOptions {
  std::string cause;  ///< empty: list them all
  bool markdown = false;
};

struct FaultsOptions {
  RunOptions run;
  std::string part = "1/1";
  bool open = false;  ///< none of the faults is expected to be judged rightly yet
  bool markdown = false;
};

struct BlameOptions {
  RunOptions run;  ///< its scenarios are not looked at
  std::filesystem::path scenario;
  std::string left, right;  ///< variants; empty: the scenario's two
  std::string that;         ///< relation; empty: by what the two are
  std::string vary;         ///< controls; empty: all
};

struct RecordOptions {
  std::filesystem::path out;          ///< folder for the traces
  std::vector<std::string> command;   ///< program and arguments
  std::int64_t every = 1;             ///< updates
  std::vector<std::string> channels;  ///< empty: all
  bool strict = false;                ///< a recorder that fails ends the training
};

struct InitOptions {
  std::filesystem::path out;  ///< the scenario's file; empty: named after the script
  std::vector<std::string> command;
};

struct DoctorOptions {
  RunOptions run;
  bool collectives = false;    ///< checks sums and copies between ranks
  std::string over = "gloo";   ///< library of that check, or "nccl"
  std::int64_t ranks = 2;      ///< of that check
  bool wrong_element = false;  ///< plants one, to see that it is found
};

/// Each runs one subcommand and returns the exit code; *throws* the errors of base/error.h.
int run(const RunOptions& options);
int gate(RunOptions options);
/// `part` of the mutations: "1/4".
int mutations(const RunOptions& options, const std::string& part);
int accept(const AcceptOptions& options);
int diff(const DiffOptions& options);
int audit(const AuditOptions& options);
int check(const CheckOptions& options);
int show(const ShowOptions& options);
int faults(FaultsOptions options);
/// Writes what another scheduler needs to start the runs, into a new folder: `out`.
int prepare(const RunOptions& options);
/// Prints what starts the runs of a prepared folder: a batch script, or Kubernetes objects.
int emit(const EmitOptions& options);
/// Judges runs that were started elsewhere.
int judge(const JudgeOptions& options);
int explain(const ExplainOptions& options);
int blame(const BlameOptions& options);
/// Names of the relations that `blame --that` accepts.
std::vector<std::string> relations_of_blame();
int doctor(const DoctorOptions& options);
int init(const InitOptions& options);

/// Its exit code is the command's, where that is not 0.
int record(const RecordOptions& options);

}  // namespace lockstep::app
