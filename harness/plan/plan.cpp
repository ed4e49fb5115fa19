#include "harness/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/plan/validation.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/train_reading.h"

namespace lockstep::plan {
namespace {

/// Hash of every data file or folder, read once.
class DataFiles {
 public:
  const std::string& hash_of(const std::filesystem::path& path) {
    const auto found = hashes_.find(path.string());
    if (found != hashes_.end()) return found->second;
    const std::string hash = is_folder(path) ? hash_of_folder(path) : hash_of_file(path);
    return hashes_.emplace(path.string(), hash).first->second;
  }

 private:
  static std::string hash_of_file(const std::filesystem::path& file) {
    Sha256 hash;
    read_pieces(file, [&hash](std::string_view piece) { hash.update(piece); });
    return hash.hex();
  }

  /// Over name and content of every file in it; a name ends with a zero byte, a hash has one length. What is no file
  /// has no content: who needs it refuses it.
  static std::string hash_of_folder(const std::filesystem::path& folder) {
    Sha256 hash;
    for (const std::string& name : files_below(folder)) {
      const bool is_file = std::filesystem::is_regular_file(folder / name);
      hash.update(name + '\0' + (is_file ? hash_of_file(folder / name) : ""));
    }
    return hash.hex();
  }

  std::map<std::string, std::string> hashes_;
};

/// 1 and 1.0 are one number, and get one digest.
Json with_plain_numbers(const Json& value) {
  if (value.is_structured()) {
    Json result = value;
    for (Json& item : result) item = with_plain_numbers(item);
    return result;
  }
  constexpr double kExact = 9007199254740992;  // 2^53
  if (!value.is_number_float() || std::abs(value.get<double>()) > kExact) return value;
  const auto whole = static_cast<std::int64_t>(value.get<double>());
  return static_cast<double>(whole) == value.get<double>() ? Json(whole) : value;
}

/// Words of a command that name files. The program may write them: who compares them knows that from its traces.
std::set<std::string> named_files(const scenario::ProgramSpec& program, const std::filesystem::path& directory) {
  std::set<std::string> named;
  for (const std::string& word : program.command) {
    std::error_code unknown;
    const bool is_own = word != program.command[0] || word.find('/') != std::string::npos;
    if (is_own && std::filesystem::is_regular_file(directory / word, unknown)) named.insert(word);
  }
  for (const std::string& input : program.inputs) named.erase(input);
  return named;
}

/// The same for a program of one's own: its command, and the content of its inputs and of the files that it names.
void take_command(Run& run, const scenario::Scenario& scenario, const scenario::Variant& variant, DataFiles& data) {
  const std::filesystem::path directory = file_of(scenario, variant.program->directory);
  Json computed = {{"world_size", variant.world_size},
                   {"program", scenario::without_defaults(variant.program_json, "program")}};
  for (const char* key : {"record", "directory", "inputs", "alone", "float64"}) computed["program"].erase(key);
  const auto hash_of = [&](const std::string& file) { return data.hash_of((directory / file).lexically_normal()); };
  for (const std::string& input : variant.program->inputs) computed["inputs_sha256"][input] = hash_of(input);
  Json named = Json::object();
  for (const std::string& file : named_files(*variant.program, directory)) named[file] = hash_of(file);
  run.train_digest = sha256(with_plain_numbers(computed).dump());
  run.program = CommandProgram{.spec = *variant.program,
                               .directory = directory,
                               .header = {{"scenario", scenario.name},
                                          {"variant", variant.name},
                                          {"repeat", run.repeat},
                                          {"train_digest", run.train_digest},
                                          {"inputs", named}}};
  if (const std::string& cpu = variant.program->cpu; !cpu.empty())
    std::get<CommandProgram>(run.program).header["cpu"] = cpu;
}

Run run_from(const scenario::Scenario& scenario, const scenario::Variant& variant, std::int64_t repeat,
             DataFiles& data) {
  Run run{.name = scenario.name + "/" + variant.name + "/" + std::to_string(repeat),
          .scenario = scenario.name,
          .variant = variant.name,
          .repeat = repeat,
          .world_size = variant.world_size,
          .launch = variant.launch,
          .program = {},
          .train_digest = {},
          .after = {}};
  if (variant.program) {
    take_command(run, scenario, variant, data);
    return run;
  }
  Json computed = {{"world_size", variant.world_size},
                   {"train", scenario::without_defaults(variant.train_json, "train")}};
  computed["train"].erase("record");  // what is recorded changes nothing of what is computed
  Json files = Json::object();
  // A file's content counts, not its place.
  const auto depend_on = [&](const std::string& name, const std::string& path, const std::string& object,
                             const std::string& option) {
    const std::filesystem::path file = file_of(scenario, path);
    files[name] = file.string();
    computed[name + "_sha256"] = data.hash_of(file);
    computed[Json::json_pointer(object)].erase(option);
  };
  const recipe::DataChoice& chosen = variant.train.data;
  for (const scenario::DataFile& of : scenario::files_of(chosen))
    depend_on(of.name, chosen.options.at(of.option).get<std::string>(), "/train/data", of.option);
  if (const auto& load = variant.train.checkpoint.load; load && !load->file.empty())
    depend_on("weights", load->file, "/train/checkpoint/load", "file");
  run.train_digest = sha256(with_plain_numbers(computed).dump());
  run.program = WorkerProgram{{{"format", kRunFormat},
                               {"build", build_id()},
                               {"scenario", scenario.name},
                               {"variant", variant.name},
                               {"repeat", repeat},
                               {"world_size", variant.world_size},
                               {"train", variant.train_json},
                               {"train_digest", run.train_digest},
                               {"files", files}}};
  return run;
}

/// A run that loads or follows comes after the same repeat of the run that saves, and finds its checkpoints beside
/// itself. What it computes depends on that run, and so does its digest.
void connect_loads(Plan& plan, const scenario::Scenario& scenario) {
  std::map<std::string, std::string> own;  // digest of each variant by itself
  for (const Run& run : plan.runs) {
    if (run.scenario == scenario.name) own[run.variant] = run.train_digest;
  }
  const std::function<std::string(const std::string&)> computed = [&](const std::string& variant) {
    const std::vector<std::string> sources = scenario::sources_of(scenario.variant(variant));
    std::string all = own.at(variant);
    for (const std::string& source : sources) all += computed(source);
    return sources.empty() ? all : sha256(all);
  };
  for (Run& run : plan.runs) {
    if (run.scenario != scenario.name) continue;
    const recipe::CheckpointSpec& checkpoint = scenario.variant(run.variant).train.checkpoint;
    if (auto* const command = std::get_if<CommandProgram>(&run.program)) {
      if (!checkpoint.load) continue;
      run.after.push_back(plan.runs_of(run.scenario, checkpoint.load->from).at(static_cast<std::size_t>(run.repeat)));
      run.train_digest = computed(run.variant);
      command->header["train_digest"] = run.train_digest;
      command->source = plan.runs[run.after.front()].name;
      continue;
    }
    Json& spec = std::get<WorkerProgram>(run.program).spec;
    const auto connect = [&](const std::string& file, const std::string& source) {
      run.after.push_back(plan.runs_of(run.scenario, source).at(static_cast<std::size_t>(run.repeat)));
      spec["files"][file] = "../../" + source + "/" + std::to_string(run.repeat) + "/checkpoint";
    };
    if (checkpoint.load && !checkpoint.load->from.empty()) connect("checkpoint", checkpoint.load->from);
    if (!checkpoint.follow.empty()) {
      connect("followed", checkpoint.follow);
      spec["followed_after"] = scenario::updates_before(scenario.variant(checkpoint.follow), scenario);
    }
    if (run.after.empty()) continue;
    run.train_digest = computed(run.variant);
    spec["train_digest"] = run.train_digest;
  }
}

}  // namespace

const scenario::Scenario& Plan::scenario(const std::string& name) const {
  const auto found = std::find_if(scenarios.begin(), scenarios.end(), [&](const auto& s) { return s.name == name; });
  LOCKSTEP_CHECK(found != scenarios.end());
  return *found;
}

std::vector<std::size_t> Plan::runs_of(const std::string& scenario, const std::string& variant) const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].scenario == scenario && runs[i].variant == variant) result.push_back(i);
  }
  return result;
}

Plan make_plan(std::vector<scenario::Scenario> scenarios) {
  Problems problems;
  validate(scenarios, problems);
  problems.throw_if_any();
  Plan plan{.scenarios = std::move(scenarios), .runs = {}, .checks = {}};
  DataFiles data;
  for (const scenario::Scenario& scenario : plan.scenarios) {
    for (const scenario::Variant& variant : scenario.variants) {
      for (std::int64_t repeat = 0; repeat < scenario.repeats_of(variant); ++repeat) {
        plan.runs.push_back(run_from(scenario, variant, repeat, data));
      }
    }
    connect_loads(plan, scenario);
    for (std::size_t i = 0; i < scenario.checks.size(); ++i)
      plan.checks.push_back({scenario.name, i, scenario.checks[i]});
  }
  return plan;
}

}  // namespace lockstep::plan
