#include "harness/app/campaign.h"

#include <string>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <sys/file.h>

#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/launch/outcome_file.h"
#include "harness/report/unwatched.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "lockstep.campaign/1";

/// The same for runs that compute and record the same, wherever their files are.
std::string identity_of(const plan::Run& run) {
  const auto* const worker = std::get_if<plan::WorkerProgram>(&run.program);
  if (worker == nullptr) {
    const auto& program = std::get<plan::CommandProgram>(run.program);
    const scenario::RecordSpec& record = program.spec.record;
    return sha256(Json({program.header, record.every, record.channels}).dump());
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

/// Runs that one of the two has alone, or that are not the same in both.
std::vector<std::string> different_runs(const Json& expected, const Json& actual) {
  std::vector<std::string> names;
  for (const auto& [name, identity] : expected.items()) {
    if (actual.value(name, Json()) != identity) names.push_back(name);
  }
  for (const auto& [name, identity] : actual.items()) {
    if (!expected.contains(name)) names.push_back(name);
  }
  return names;
}

void require_same(const Json& expected, const fs::path& file) {
  const Json actual = read_json(file);
  const bool is_one =
      actual.is_object() && actual.value("format", Json()) == kFormat && actual.value("runs", Json()).is_object();
  if (!is_one)
    throw InputError({.what = "this is no campaign that can go on", .where = file.string(), .expected = kFormat});
  const std::vector<std::string> names = different_runs(expected.at("runs"), actual.at("runs"));
  if (actual.value("build", Json()) == expected.at("build") && names.empty()) return;
  throw InputError({.what = names.empty() ? "another build of lockstep began this campaign"
                                          : "the folder holds a campaign of other runs: " + some_of(names, 3),
                    .where = file.string(),
                    .next = "begin anew, with an empty folder for --out; to judge what is there, use lockstep judge"});
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
    throw InputError({.what = "there is no campaign to go on with",
                      .where = folder.string(),
                      .expected = "campaign.json, as `lockstep run --out` and `--prepare` write it",
                      .next = "begin one, without --resume"});
  require_same(description_of(plan), file);
  Campaign campaign(file);
  campaign.ended_ = report::ended_before(plan, folder);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    if (!campaign.ended_[i]) fs::remove_all(folder / plan.runs[i].name);
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
