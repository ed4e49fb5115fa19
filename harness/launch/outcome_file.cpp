#include "harness/launch/outcome_file.h"

#include <array>
#include <exception>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::launch {
namespace {

constexpr const char* kFormat = "lockstep.outcome/1";

constexpr std::array kStatuses = {
    RunOutcome::Status::kFinished, RunOutcome::Status::kFailed,      RunOutcome::Status::kHung,
    RunOutcome::Status::kRefused,  RunOutcome::Status::kResource,    RunOutcome::Status::kUnsupported,
    RunOutcome::Status::kSkipped,  RunOutcome::Status::kInterrupted, RunOutcome::Status::kUnknown};

constexpr std::array kPhases = {Phase::kStart,     Phase::kData,   Phase::kForward, Phase::kBackward,
                                Phase::kOptimizer, Phase::kRecord, Phase::kDone};

constexpr std::array kHows = {RankExit::How::kExited, RankExit::How::kSignalled, RankExit::How::kEnded};

/// The value of a closed set that has this name.
template <typename Values>
typename Values::value_type named(const Values& values, const Json& name) {
  for (const auto value : values) {
    if (name_of(value) == name.get<std::string>()) return value;
  }
  throw InputError({.what = "unknown value", .actual = name.dump()});
}

Json progress_json(const Progress& progress) {
  return {{"step", progress.step},
          {"phase", name_of(progress.phase)},
          {"collectives", progress.collectives},
          {"collective", progress.collective},
          {"previous", progress.previous},
          {"before_step", progress.before_step},
          {"beats", progress.beats}};
}

Progress progress_from(const Json& json) {
  return {.step = json.at("step").get<std::int64_t>(),
          .phase = named(kPhases, json.at("phase")),
          .collectives = json.at("collectives").get<std::uint64_t>(),
          .collective = json.at("collective").get<std::string>(),
          .previous = json.at("previous").get<std::string>(),
          .before_step = json.at("before_step").get<std::uint64_t>(),
          .beats = json.at("beats").get<std::uint64_t>()};
}

Json rank_json(const RankExit& rank) {
  return {{"how", name_of(rank.how)},
          {"code", rank.code},
          {"signal", rank.signal},
          {"after_s", rank.after_s},
          {"progress", progress_json(rank.progress)},
          {"failure", rank.failure ? json_of(*rank.failure) : Json()},
          {"log", rank.log.filename().string()}};
}

RankExit rank_from(const Json& json, const std::filesystem::path& directory) {
  const Json& failure = json.at("failure");
  return {.how = named(kHows, json.at("how")),
          .code = json.at("code").get<int>(),
          .signal = json.at("signal").get<int>(),
          .after_s = json.at("after_s").get<double>(),
          .progress = progress_from(json.at("progress")),
          .failure = failure.is_null() ? std::nullopt : std::optional(failure_from(failure)),
          .log = directory / json.at("log").get<std::string>()};
}

RunOutcome outcome_from(const Json& json, const std::filesystem::path& directory) {
  RunOutcome outcome{.run = json.at("run").get<std::string>(),
                     .status = named(kStatuses, json.at("status")),
                     .why = json.at("why").get<std::string>(),
                     .log_tail = json.at("log_tail").get<std::string>(),
                     .wall_s = json.at("wall_s").get<double>()};
  if (const Json& culprit = json.at("culprit_rank"); !culprit.is_null()) outcome.culprit = culprit.get<std::int64_t>();
  if (const auto told = json.find("command_failure"); told != json.end()) outcome.command_failure = failure_from(*told);
  for (const Json& why : json.value("restarts", Json::array())) outcome.restarts.push_back(why.get<std::string>());
  for (const Json& rank : json.at("ranks")) outcome.ranks.push_back(rank_from(rank, directory));
  return outcome;
}

}  // namespace

namespace {

/// Leaves an empty file, where even that fits.
void write_nothing(const std::filesystem::path& path) {
  try {
    write_file(path, "");
  } catch (const ResourceError&) {  // whoever asks for it throws the first error
  }
}

}  // namespace

std::filesystem::path outcome_path(const std::filesystem::path& run_directory) {
  return run_directory / "outcome.json";
}

void write_outcome(const std::filesystem::path& run_directory, const RunOutcome& outcome) {
  Json ranks = Json::array();
  for (const RankExit& rank : outcome.ranks) ranks.push_back(rank_json(rank));
  Json json = {{"format", kFormat},
               {"run", outcome.run},
               {"status", name_of(outcome.status)},
               {"culprit_rank", outcome.culprit ? Json(*outcome.culprit) : Json()},
               {"why", outcome.why},
               {"log_tail", outcome.log_tail},
               {"wall_s", outcome.wall_s},
               {"restarts", outcome.restarts},
               {"ranks", ranks}};
  if (outcome.command_failure) json["command_failure"] = json_of(*outcome.command_failure);
  // A tail may end anywhere, and a program may print anything: what is no UTF-8 becomes U+FFFD, as in a report.
  try {
    replace_file(outcome_path(run_directory), json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const ResourceError&) {
    // An empty file fits on most full disks. Without any, whole traces would be taken for a run that ended well.
    if (outcome.status != RunOutcome::Status::kFinished) write_nothing(outcome_path(run_directory));
    throw;
  }
}

std::optional<RunOutcome> read_outcome(const std::filesystem::path& run_directory) {
  try {
    const std::filesystem::path file = outcome_path(run_directory);
    if (!is_there(file)) return std::nullopt;
    const Json json = read_json(file);
    if (json.at("format") != kFormat) return std::nullopt;
    return outcome_from(json, run_directory);
  } catch (const std::exception&) {  // who wrote it is not known, and so is how the run ended
    return std::nullopt;
  }
}

}  // namespace lockstep::launch
