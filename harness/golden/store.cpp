#include "harness/golden/store.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/compare/check.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"

namespace lockstep::golden {
namespace {

std::vector<trace::Channel> every_channel() {
  std::vector<trace::Channel> channels;
  for (const trace::ChannelInfo& row : trace::kChannels) channels.push_back(row.channel);
  return channels;
}

std::optional<std::string> difference_between(const trace::RunTrace& left, const trace::RunTrace& right) {
  if (left.world_size() != right.world_size()) return "another number of ranks";
  const compare::Comparison comparison = compare::compare_runs(left, right, every_channel(), compare::bitwise);
  if (!comparison.first) return std::nullopt;
  const compare::Divergence& at = *comparison.first;
  return "step " + std::to_string(at.step) + ", " + std::string(trace::name_of(at.channel)) + " " + at.tensor +
         ", rank " + std::to_string(at.rank);
}

void require_identical(const std::vector<trace::RunTrace>& repeats) {
  const auto fail = [](const std::string& what, const std::string& where, const std::string& actual) {
    throw InputError({.what = what,
                      .where = where,
                      .expected = "two repeats or more, complete and bitwise equal",
                      .actual = actual,
                      .next = "a training that does not repeat itself cannot have a golden: see 'lockstep run' with "
                              "the check 'repeatable'"});
  };
  if (repeats.size() < 2)
    fail("a golden needs repeats", repeats.empty() ? "" : repeats[0].run, std::to_string(repeats.size()) + " run");
  for (const trace::RunTrace& repeat : repeats) {
    for (const trace::Trace& rank : repeat.ranks) {
      if (!rank.complete) fail("a trace is not complete", rank.origin, rank.torn);
    }
    if (const auto difference = difference_between(repeats[0], repeat))
      fail("the repeats differ", repeats[0].run + " and " + repeat.run, *difference);
  }
}

/// The trace's text as golden: sketches explain differences between runs, and would make goldens ten times as large.
std::string golden_text(const trace::Trace& trace, const Provenance& provenance) {
  Json header = trace.header;
  header["golden"] = {{"reason", provenance.reason}, {"date", provenance.date}};
  if (trace.rank == 0) header["golden"]["train"] = provenance.train;
  std::string text = trace::line_of_header(header);
  for (trace::Step step : trace.steps) {
    for (trace::Record& record : step.records) record.sketch.reset();
    text += trace::line_of(step);
  }
  return text + trace::line_of_end(trace.steps.size() + 1, sha256(text));
}

}  // namespace

std::string key_of(const trace::RunTrace& run) {
  const Json& header = run.ranks.at(0).header;
  const std::string cpu = header.value("cpu", "native");
  if (cpu != "native") return cpu;
  std::string capability = header.value("/environment/cpu_capability"_json_pointer, "unknown");
  std::transform(capability.begin(), capability.end(), capability.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "native-" + capability;
}

std::filesystem::path golden_directory(const std::filesystem::path& root, const std::string& scenario,
                                       const std::string& key, const std::string& variant) {
  return root / scenario / key / variant;
}

std::optional<trace::RunTrace> read_golden(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / trace::file_name_of_rank(0))) return std::nullopt;
  return trace::read_run(directory, "golden", trace::Damage::kReport);
}

Accepted accept(const std::filesystem::path& directory, const std::vector<trace::RunTrace>& repeats,
                const Provenance& provenance) {
  require_identical(repeats);
  Accepted what = Accepted::kNew;
  if (std::filesystem::exists(directory)) {
    what = Accepted::kChanged;
    try {
      const auto old = read_golden(directory);
      const bool whole = old && std::all_of(old->ranks.begin(), old->ranks.end(),
                                            [](const trace::Trace& t) { return t.complete && t.damage.empty(); });
      const bool same_training =
          whole &&
          old->ranks[0].header.value("train_digest", "") == repeats[0].ranks[0].header.value("train_digest", "") &&
          old->ranks[0].header.value("scenario", "") == repeats[0].ranks[0].header.value("scenario", "");
      if (same_training && !difference_between(*old, repeats[0])) return Accepted::kUnchanged;
    } catch (const DamagedFile&) {
      // A golden that cannot be read is replaced like one that differs.
    }
  }
  const std::filesystem::path fresh = directory.string() + ".new", old = directory.string() + ".old";
  std::filesystem::remove_all(fresh);
  std::filesystem::remove_all(old);
  make_directories(fresh);
  for (const trace::Trace& trace : repeats[0].ranks)
    replace_file(fresh / trace::file_name_of_rank(trace.rank), golden_text(trace, provenance));
  std::error_code error;
  if (what == Accepted::kChanged) std::filesystem::rename(directory, old, error);
  if (!error) std::filesystem::rename(fresh, directory, error);
  if (error)
    throw ResourceError({.what = "cannot replace a golden: " + error.message(),
                         .where = directory.string(),
                         .next = "the new golden is in " + fresh.string()});
  std::filesystem::remove_all(old);
  return what;
}

}  // namespace lockstep::golden
