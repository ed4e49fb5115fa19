#include "harness/app/campaign.h"

#include <chrono>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <sys/file.h>

#include "harness/app/shell.h"
#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/judge/unwatched.h"
#include "harness/launch/outcome_file.h"
#include "harness/launch/slurm_job.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// Time for Slurm to end a job.
constexpr std::chrono::seconds kCancelling{60};

constexpr const char* kFormat = "lockstep.campaign/1";

/// The same for runs that compute and record the same, wherever their files are.
std::string identity_of(const plan::Run& run) {
  const auto* const worker = std::get_if<plan::WorkerProgram>(&run.program);
  if (worker == nullptr) {
    const auto& program = std::get<plan::CommandProgram>(run.program);
    const recipe::RecordSpec& record = program.spec.record;
    Json header = program.header;
    header.erase("inputs");  // the run may have written them: its traces tell, and are held to them
    return sha256(Json({header, record.every, record.channels}).dump());
  }
  Json spec = worker->spec;
  spec.erase("files");
  return sha256(spec.dump());
}

Json description_of(const plan::Plan& plan) {
  Json runs = Json::object();
  for (const plan::Run& run : plan.runs) runs[run.name] = identity_of(run);
  return {{"format", kFormat}, {"build", build_id()}, {"runs", runs}};
}

/// Names of our jobs that Slurm knows. *Throws*: ResourceError: who cannot tell must not start a run twice.
std::set<std::string> scheduler_jobs() {
  const Said jobs = said_by("squeue --me --noheader --format=%j");
  if (jobs.status != 0)
    throw ResourceError({.what = "Slurm does not report which jobs still run",
                         .where = "squeue --me",
                         .actual = jobs.text,
                         .next = "try again when it answers"});
  std::istringstream lines(jobs.text);
  std::set<std::string> names;
  for (std::string name; std::getline(lines, name);) names.insert(name);
  return names;
}

/// A job that lockstep no longer waits for must not write into its folder.
void cancel(const std::string& job) {
  said_by("scancel --me --name=" + shell_quoted(job));
  const auto deadline = std::chrono::steady_clock::now() + kCancelling;
  while (scheduler_jobs().contains(job)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw ResourceError({.what = "Slurm does not cancel a job that lockstep no longer waits for",
                           .where = job,
                           .next = "end it, and try again"});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

/// Folders of the plan's runs on which a scheduler's job is at work. Cancels jobs of other folders below `root`.
std::set<fs::path> folders_at_work(const plan::Plan& plan, const fs::path& root) {
  std::set<fs::path> runs, at_work;
  for (const plan::Run& run : plan.runs) runs.insert(root / run.name);
  std::optional<std::set<std::string>> jobs;  // asked for only where one may be
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() != launch::kRunIdFile) continue;
    if (!jobs) jobs = scheduler_jobs();
    const std::string job = launch::slurm_job_name(read_file(entry.path()));
    if (!jobs->contains(job)) continue;
    if (runs.contains(entry.path().parent_path())) {
      at_work.insert(entry.path().parent_path());
    } else {
      cancel(job);
    }
  }
  return at_work;
}

void require_same(const Json& expected, const fs::path& file) {
  const Json actual = read_json(file);
  const bool is_one =
      actual.is_object() && actual.value("format", Json()) == kFormat && actual.value("runs", Json()).is_object();
  if (!is_one)
    throw InputError({.what = "this campaign cannot be resumed", .where = file.string(), .expected = kFormat});
  const std::vector<std::string> names = keys_that_differ(expected.at("runs"), actual.at("runs"));
  if (actual.value("build", Json()) == expected.at("build") && names.empty()) return;
  throw InputError({.what = names.empty() ? "another build of lockstep started this campaign"
                                          : "the folder holds a campaign of other runs: " + some_of(names, 3),
                    .where = file.string(),
                    .next = "start again with an empty folder for --out; `lockstep judge` judges what is there"});
}

}  // namespace

Campaign::Campaign(const fs::path& file) : lock_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (lock_ && ::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0) return;
  throw InputError({.what = "another lockstep works in this folder",
                    .where = file.parent_path().string(),
                    .next = "wait for its end, or end it"});
}

Campaign Campaign::begin(const plan::Plan& plan, const fs::path& folder) {
  const fs::path file = folder / "campaign.json";
  replace_file(file, description_of(plan).dump(1) + "\n");
  Campaign campaign(file);
  campaign.ended_.resize(plan.runs.size());
  return campaign;
}

Campaign Campaign::resume(const plan::Plan& plan, const fs::path& folder) {
  const fs::path file = folder / "campaign.json";
  if (!is_there(file))
    throw InputError({.what = "there is no campaign to resume",
                      .where = folder.string(),
                      .expected = "campaign.json, as `lockstep run --out` and `--prepare` write it",
                      .next = "start one without --resume"});
  require_same(description_of(plan), file);
  Campaign campaign(file);
  const std::set<fs::path> at_work = folders_at_work(plan, folder);
  campaign.ended_ = judge::ended_before(plan, folder);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const fs::path run = folder / plan.runs[i].name;
    if (!campaign.ended_[i] && !at_work.contains(run)) fs::remove_all(run);
  }
  return campaign;
}

void OutcomeKeeper::ended(std::size_t job, const launch::RunOutcome& outcome) {
  try {
    launch::write_outcome(folder_ / plan_.runs[job].name, outcome);
  } catch (const ResourceError&) {
  }
  next_.ended(job, outcome);
}

}  // namespace lockstep::app
