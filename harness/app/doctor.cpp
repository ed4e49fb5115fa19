#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/golden/store.h"

namespace lockstep::app {
namespace {

/// Prints one line for each question and remembers the worst answer.
class Examination {
 public:
  void ask(const std::string& what, const std::function<std::string()>& answer) {
    try {
      std::printf("ok       %-22s  %s\n", what.c_str(), answer().c_str());
    } catch (const Error& error) {
      healthy_ = false;
      std::printf("problem  %-22s  %s\n", what.c_str(), error.what());
    }
  }

  bool healthy() const { return healthy_; }

 private:
  bool healthy_ = true;
};

/// The first line that the worker prints when it is asked by a flag; empty where it does not start.
std::string answer_of(const std::filesystem::path& worker, const std::string& flag) {
  const std::string command = shell_quoted(worker.string()) + " " + flag + " 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  char text[4096] = {};
  if (pipe != nullptr && std::fgets(text, sizeof text, pipe) == nullptr) text[0] = '\0';
  if (pipe != nullptr) ::pclose(pipe);
  std::string answer(text);
  if (!answer.empty() && answer.back() == '\n') answer.pop_back();
  return answer;
}

std::string examine_worker(const RunOptions& options) {
  const std::filesystem::path worker = find_worker(options.worker);
  const std::string build = answer_of(worker, "--build-id");
  if (build != build_id()) {
    throw InputError({.what = "the worker belongs to another build, or does not start",
                      .where = worker.string(),
                      .expected = std::string("build ") + build_id(),
                      .actual = build.empty() ? "no answer" : "build " + build,
                      .next = "build both again: ci/build"});
  }
  return worker.string() + ", build " + build;
}

/// "cpu: …; no cuda: …". A device that is lacking is no problem: scenarios that want it are refused by name.
std::string examine_devices(const RunOptions& options) {
  const std::filesystem::path worker = find_worker(options.worker);
  std::vector<std::string> devices;
  for (const Json& device : parse_json(answer_of(worker, "--devices"), worker.string() + " --devices"))
    devices.push_back((device.at("usable").get<bool>() ? "" : "no ") + device.at("name").get<std::string>() + ": " +
                      device.at("says").get<std::string>());
  return join(devices, "; ");
}

std::string examine_processor() {
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (!v3)
    throw Unsupported({.what = "this processor cannot hold 'portable' goldens (no AVX2 and FMA)",
                       .next = "use train.determinism.cpu = portable-v1"});
  return "x86-64-v3: native and portable goldens";
}

std::string examine_space(const std::filesystem::path& where) {
  constexpr std::uintmax_t kEnough = 1ULL << 30;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(where, error);
  if (error)
    throw ResourceError({.what = "there is no place for traces: " + error.message(),
                         .where = where.string(),
                         .next = "set TMPDIR to a folder that exists"});
  if (space.available < kEnough)
    throw ResourceError({.what = "less than 1 GiB is free for traces", .where = where.string()});
  return std::to_string(space.available >> 30) + " GiB free in " + where.string();
}

std::string examine_scenarios(const RunOptions& options) {
  const plan::Plan plan = plan::make_plan(load(options));
  return std::to_string(plan.scenarios.size()) + " valid, " + std::to_string(plan.runs.size()) + " runs, " +
         std::to_string(plan.checks.size()) + " checks";
}

/// Keys under which a variant may have goldens: its own, or every native one that is there.
std::vector<std::string> keys_to_examine(const RunOptions& options, const std::string& scenario,
                                         const std::string& cpu) {
  if (cpu != "native") return {cpu};
  std::vector<std::string> keys;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options.golden_root / scenario, ignored)) {
    if (entry.path().filename().string().rfind("native-", 0) == 0) keys.push_back(entry.path().filename());
  }
  return keys;
}

/// Every golden that a scenario asks for must be whole; a portable one must be there.
std::string examine_goldens(const RunOptions& options) {
  std::size_t found = 0;
  for (const scenario::Scenario& scenario : load(options)) {
    for (const scenario::CheckSpec& check : scenario.checks) {
      for (const std::string& variant : check.variants) {
        if (check.that != "golden") continue;
        const std::string cpu = scenario.variant(variant).train.determinism.cpu;
        for (const std::string& key : keys_to_examine(options, scenario.name, cpu)) {
          const auto directory = golden::golden_directory(options.golden_root, scenario.name, key, variant);
          const auto golden = golden::read_golden(directory);
          if (golden) {
            if (const auto damage = golden::damage_of(*golden); !damage.empty())
              throw DamagedFile({.what = "a golden is damaged", .where = directory.string(), .actual = damage[0]});
            ++found;
          } else if (key == cpu) {
            throw InputError(
                {.what = "a golden is missing",
                 .where = directory.string(),
                 .next = "lockstep golden accept " + shell_quoted(scenario.file.string()) + " --reason '…'"});
          }
        }
      }
    }
  }
  return std::to_string(found) + " there and whole";
}

}  // namespace

int doctor(const DoctorOptions& options) {
  RunOptions run = options.run;
  if (run.scenarios.empty()) run.scenarios = {"scenarios/gate"};
  Examination examination;
  examination.ask("lockstep", [] { return std::string("build ") + build_id(); });
  examination.ask("worker", [&] { return examine_worker(run); });
  examination.ask("devices", [&] { return examine_devices(run); });
  examination.ask("processor", examine_processor);
  examination.ask("space for traces", [] { return examine_space(temporary_base()); });
  examination.ask("scenarios", [&] { return examine_scenarios(run); });
  examination.ask("goldens", [&] { return examine_goldens(run); });
  return examination.healthy() ? 0 : 2;
}

}  // namespace lockstep::app
