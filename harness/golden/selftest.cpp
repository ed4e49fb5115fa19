#include "harness/golden/selftest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>

#include "harness/base/error.h"
#include "harness/golden/golden_check.h"

namespace lockstep::golden {
namespace {

using trace::Channel;
using trace::Record;
using trace::RunTrace;
using trace::Step;

/// Records of one channel, in one step of one rank.
struct Patch {
  Step* step = nullptr;
  std::vector<std::size_t> records;  ///< their places in the step
};

/// The step in the middle of those in which the last rank records the channel.
std::optional<Patch> patch_of(RunTrace& run, Channel channel) {
  std::vector<Patch> all;
  for (Step& step : run.ranks.back().steps) {
    Patch patch{.step = &step, .records = {}};
    for (std::size_t i = 0; i < step.records.size(); ++i) {
      if (step.records[i].channel == channel) patch.records.push_back(i);
    }
    if (!patch.records.empty()) all.push_back(std::move(patch));
  }
  return all.empty() ? std::nullopt : std::optional(all[all.size() / 2]);
}

/// A float32 or float64 that is one unit in the last place larger.
bool move_number(Record& record) {
  if (!record.number || !record.shape.empty()) return false;
  const auto take = [&record](auto value) {
    record.number = static_cast<double>(value);
    record.digest = trace::digest_of(record.dtype, record.shape, std::as_bytes(std::span(&value, 1)));
  };
  if (record.dtype == trace::DType::kFloat32) {
    take(std::nextafter(static_cast<float>(*record.number), 2 * std::fabs(static_cast<float>(*record.number)) + 1));
  } else if (record.dtype == trace::DType::kFloat64) {
    take(std::nextafter(*record.number, 2 * std::fabs(*record.number) + 1));
  } else {
    return false;
  }
  return true;
}

/// Changes the records of a patch; false where there is nothing of that kind to change.
struct Change {
  const char* what;
  bool (*make)(std::vector<Record>& records, const std::vector<std::size_t>& of_channel);
};

Record& middle(std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
  return records[of_channel[of_channel.size() / 2]];
}

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"one bit of a digest",
       [](std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
         middle(records, of_channel).digest.low ^= 1;
         return true;
       }},
      {"one ULP of a number",
       [](std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
         return std::any_of(of_channel.begin(), of_channel.end(),
                            [&](std::size_t i) { return move_number(records[i]); });
       }},
      {"two records swapped",
       [](std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
         Record& first = records[of_channel.front()];
         const auto other = std::find_if(of_channel.begin(), of_channel.end(),
                                         [&](std::size_t i) { return records[i].digest != first.digest; });
         if (other == of_channel.end()) return false;
         std::swap(first.name, records[*other].name);
         return true;
       }},
      {"a record less",
       [](std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
         records.erase(records.begin() + static_cast<std::ptrdiff_t>(of_channel[of_channel.size() / 2]));
         return true;
       }},
      {"another dtype",
       [](std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
         Record& record = middle(records, of_channel);
         record.dtype = record.dtype == trace::DType::kInt8 ? trace::DType::kUInt8 : trace::DType::kInt8;
         return true;
       }},
      {"another shape", [](std::vector<Record>& records, const std::vector<std::size_t>& of_channel) {
         middle(records, of_channel).shape.push_back(1);
         return true;
       }}};
  return all;
}

/// Tries changes of one run against its entry.
class Selftest {
 public:
  Selftest(const scenario::Scenario& scenario, const scenario::CheckSpec& check, const std::string& variant,
           const Golden& golden, const Entry& entry)
      : variant_(variant),
        golden_(golden),
        entry_(entry),
        run_(entry.run),
        traces_{{variant, {&run_}}},
        input_{.scenario = scenario,
               .spec = check,
               .traces = traces_,
               .train_digests = {{variant, entry.run.ranks[0].header.value("train_digest", "")}},
               .golden_root = {}} {
    run_.run = variant + "/0";
  }

  std::vector<Trial> trials() {
    if (is_seen())
      throw InputError({.what = "a run that equals a golden does not agree with it: nothing can be shown",
                        .where = name(),
                        .expected = "a golden of the scenario as it is",
                        .next = "lockstep golden status"});
    for (const Channel channel : checks::channels_of(input_, run_)) try_channel(channel);
    try_run("a step less", [](RunTrace& run) {
      for (trace::Trace& rank : run.ranks) rank.steps.pop_back();
    });
    if (run_.ranks.size() > 1) try_run("a rank less", [](RunTrace& run) { run.ranks.pop_back(); });
    return std::move(trials_);
  }

 private:
  std::string name() const { return golden_.scenario + "/" + golden_.variant + " (" + entry_.key + ")"; }

  bool is_seen() const {
    return judge_entry(golden_, entry_, input_, variant_, run_).status != checks::CheckResult::Status::kAgree;
  }

  void try_channel(Channel channel) {
    const auto patch = patch_of(run_, channel);
    if (!patch) return;
    for (const Change& change : changes()) {
      const std::vector<Record> sound = patch->step->records;
      if (change.make(patch->step->records, patch->records))
        trials_.push_back({name(), std::string(name_of(channel)) + ": " + change.what, is_seen()});
      patch->step->records = sound;
    }
  }

  void try_run(const char* what, const std::function<void(RunTrace&)>& change) {
    change(run_);
    trials_.push_back({name(), what, is_seen()});
    run_.ranks = entry_.run.ranks;
  }

  std::string variant_;
  const Golden& golden_;
  const Entry& entry_;
  RunTrace run_;  ///< as accepted, but for the change that is tried
  std::map<std::string, std::vector<const RunTrace*>> traces_;
  checks::CheckInput input_;
  std::vector<Trial> trials_;
};

}  // namespace

std::vector<Trial> selftest(const scenario::Scenario& scenario, const scenario::CheckSpec& check,
                            const std::string& variant, const Golden& golden, const Entry& entry) {
  return Selftest(scenario, check, variant, golden, entry).trials();
}

}  // namespace lockstep::golden
