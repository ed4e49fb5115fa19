#include "harness/golden/store.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/checks/check.h"
#include "harness/trace/inputs.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"

namespace lockstep::golden {
namespace {

compare::Comparison compared(const trace::RunTrace& left, const trace::RunTrace& right) {
  return compare::compare_runs(left, right, trace::all_channels(), compare::bitwise);
}

std::optional<std::string> difference_between(const trace::RunTrace& left, const trace::RunTrace& right) {
  if (left.world_size() != right.world_size()) return "a different number of ranks";
  const auto first = compared(left, right).first;
  return first ? std::optional(first->place_and_rank()) : std::nullopt;
}

void require_proof(const std::vector<trace::RunTrace>& repeats) {
  if (repeats.size() < 2)
    throw InputError({.what = "a golden needs repeats",
                      .where = repeats.empty() ? "" : repeats[0].run,
                      .expected = "two repeats or more",
                      .actual = std::to_string(repeats.size()) + " run",
                      .next = "set repeats to 2 or more"});
  for (const trace::RunTrace& repeat : repeats) {
    for (const trace::Trace& rank : repeat.ranks) {
      if (!rank.complete)
        throw InputError({.what = "a trace is not complete",
                          .where = rank.origin,
                          .expected = "a trace to its closing line",
                          .actual = rank.torn,
                          .next = "run it again: a torn trace proves nothing"});
    }
    if (const auto difference = difference_between(repeats[0], repeat))
      throw InputError({.what = "the repeats differ",
                        .where = repeats[0].run + " and " + repeat.run,
                        .expected = "repeats that are bitwise equal",
                        .actual = *difference,
                        .next = "a training that does not repeat itself cannot have a golden: see 'lockstep run' with "
                                "the check 'repeatable'"});
  }
  if (const auto hidden = compared(repeats[0], repeats[1]).hidden)
    throw InputError(
        {.what = "a training whose numbers are not finite proves nothing: NaN and infinity hide every difference",
         .where = repeats[0].ranks[0].origin,
         .expected = "finite losses, weights, buffers and states of the optimizer in every step",
         .actual = "NaN or infinity, first at " + hidden->text(),
         .next = checks::kMendTheTraining});
  const auto holds_records = [](const trace::Step& step) { return !step.records.empty(); };
  for (const trace::Trace& rank : repeats[0].ranks) {
    const bool any = std::any_of(rank.steps.begin(), rank.steps.end(), holds_records);
    if (!any)
      throw InputError({.what = "a trace without records proves nothing",
                        .where = rank.origin,
                        .expected = "records of every rank",
                        .actual = "no records",
                        .next = "list channels in train.record.channels"});
  }
}

/// The trace's text as golden: sketches, elements and rows explain one run, and would make goldens ten times as large.
std::string golden_text(const trace::Trace& trace, const std::set<std::string>& written, const Provenance& provenance) {
  Json header = trace.header;
  if (header.contains("inputs")) header["inputs"] = trace::inputs_in(header, written);
  header["golden"] = {{"reason", provenance.reason}, {"date", provenance.date}};
  if (trace.rank == 0) header["golden"]["train"] = provenance.train;
  std::string text = trace::line_of_header(header);
  for (trace::Step step : trace.steps) {
    for (trace::Record& record : step.records) {
      record.sketch.reset();
      record.elements.clear();
      record.rows.clear();
    }
    text += trace::line_of(step);
  }
  return text + trace::line_of_end(trace.steps.size() + 1, sha256(text));
}

}  // namespace

namespace {

/// A part of a golden's first line that the check reads and that `accept` cannot have written so; empty: none.
std::string fault_of_provenance(const Json& header) {
  const Json golden = header.value("golden", Json::object());
  if (!golden.is_object()) return "'golden' is not an object";
  const Json train = golden.value("train", Json::object());
  if (!train.is_object()) return "'golden.train' is not an object";
  const Json record = train.value("record", Json::object());
  if (!record.is_object()) return "'golden.train.record' is not an object";
  if (!record.value("every", Json(1)).is_number_integer()) return "'golden.train.record.every' is not an integer";
  const Json channels = record.value("channels", Json::array());
  const bool are_names = channels.is_array() && std::all_of(channels.begin(), channels.end(),
                                                            [](const Json& name) { return name.is_string(); });
  return are_names ? "" : "'golden.train.record.channels' is not an array of strings";
}

}  // namespace

std::string key_of(const trace::RunTrace& run) {
  const Json& header = run.ranks.at(0).header;
  const std::string cpu = header.value("cpu", "native");
  if (cpu != "native") return cpu;
  const Json recorded = header.value("/environment/cpu_capability"_json_pointer, Json("unknown"));
  std::string capability = recorded.is_string() ? recorded.get<std::string>() : "unknown";
  std::transform(capability.begin(), capability.end(), capability.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "native-" + capability;
}

std::filesystem::path golden_directory(const std::filesystem::path& root, const std::string& scenario,
                                       const std::string& key, const std::string& variant) {
  return root / scenario / key / variant;
}

std::optional<trace::RunTrace> read_golden(const std::filesystem::path& directory) {
  std::error_code error;
  const bool there = is_there(directory) && !std::filesystem::is_empty(directory, error);
  if (error)
    throw ResourceError(
        {.what = "cannot access the folder of a golden: " + error.message(), .where = directory.string()});
  if (!there) return std::nullopt;
  trace::RunTrace golden = trace::read_run(directory, "golden", trace::Damage::kReport);
  for (const trace::Trace& rank : golden.ranks) {
    if (!rank.header.is_object())
      throw DamagedFile({.what = "a golden is damaged: " + rank.torn, .where = rank.origin});
    if (const std::string fault = fault_of_provenance(rank.header); !fault.empty())
      throw DamagedFile({.what = "a golden is damaged: its " + fault, .where = rank.origin + ", line 1"});
  }
  return golden;
}

std::vector<std::string> damage_of(const trace::RunTrace& golden) {
  std::vector<std::string> damage;
  for (const trace::Trace& rank : golden.ranks) {
    for (const std::string& line : rank.damage) damage.push_back(rank.origin + " " + line);
    if (!rank.complete) damage.push_back(rank.origin + ": " + rank.torn);
  }
  return damage;
}

namespace {

/// What `repeat` is to the golden that stands in `directory`.
Accepted what_becomes_of(const std::filesystem::path& directory, const trace::RunTrace& repeat) {
  try {
    const auto old = read_golden(directory);
    if (!old) return is_there(directory) ? Accepted::kChanged : Accepted::kNew;
    const auto same = [&](const char* key) {
      return old->ranks[0].header.value(key, "") == repeat.ranks[0].header.value(key, "");
    };
    const Json inputs = trace::inputs_in(repeat.ranks[0].header, repeat.written);
    return damage_of(*old).empty() && same("train_digest") && same("scenario") && same("variant") &&
                   trace::inputs_in(old->ranks[0].header, repeat.written) == inputs && !difference_between(*old, repeat)
               ? Accepted::kUnchanged
               : Accepted::kChanged;
  } catch (const DamagedFile&) {
    return Accepted::kChanged;  // A golden that cannot be read is replaced like one that differs.
  } catch (const InputError&) {
    return Accepted::kChanged;
  }
}

[[noreturn]] void fail_to_replace(const std::filesystem::path& directory, const std::string& reason) {
  throw ResourceError({.what = "cannot replace a golden: " + reason,
                       .where = directory.string(),
                       .next = "the old golden is unchanged; repair the folder, then accept again"});
}

void remove_folder(const std::filesystem::path& folder, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) fail_to_replace(directory, error.message() + " (" + folder.string() + ")");
}

/// A name next to `directory` that no variant can have, and no other process takes.
std::filesystem::path beside(const std::filesystem::path& directory, const std::string& what) {
  return directory.parent_path() /
         ("." + directory.filename().string() + "." + what + "." + std::to_string(::getpid()));
}

/// For file systems that cannot exchange two names: the old golden goes aside, and comes back when the new one fails.
bool swap_by_turns(const std::filesystem::path& fresh, const std::filesystem::path& directory) {
  const std::filesystem::path aside = beside(directory, "old");
  if (::rename(directory.c_str(), aside.c_str()) != 0) return false;
  if (::rename(fresh.c_str(), directory.c_str()) == 0) return ::rename(aside.c_str(), fresh.c_str()) == 0;
  const int reason = errno;
  ::rename(aside.c_str(), directory.c_str());
  errno = reason;
  return false;
}

/// Puts `fresh` in the place of `directory`, which may be there; what was there is in `fresh` afterwards.
void swap_in(const std::filesystem::path& fresh, const std::filesystem::path& directory) {
  if (::rename(fresh.c_str(), directory.c_str()) == 0) return;  // nothing was there, or an empty folder
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, directory.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno == EINVAL && swap_by_turns(fresh, directory)) return;
  fail_to_replace(directory, std::strerror(errno));
}

void write_golden(const std::filesystem::path& directory, const trace::RunTrace& run, const Provenance& provenance) {
  make_directories(directory);
  for (const trace::Trace& trace : run.ranks)
    replace_file(directory / trace::file_name_of_rank(trace.rank), golden_text(trace, run.written, provenance));
}

}  // namespace

Accepted accept(const std::filesystem::path& directory, const std::vector<trace::RunTrace>& repeats,
                const Provenance& provenance) {
  require_proof(repeats);
  const Accepted what = what_becomes_of(directory, repeats[0]);
  if (what == Accepted::kUnchanged) return what;
  const std::filesystem::path fresh = beside(directory, "new");
  remove_folder(fresh, directory);
  try {
    write_golden(fresh, repeats[0], provenance);
    swap_in(fresh, directory);
  } catch (const ResourceError&) {
    std::error_code ignored;  // the first failure is the one to tell
    std::filesystem::remove_all(fresh, ignored);
    throw;
  }
  remove_folder(fresh, directory);  // the old golden, after the swap
  return what;
}

}  // namespace lockstep::golden
