#include "harness/golden/store.h"

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/golden/cells.h"
#include "harness/laws/held.h"
#include "harness/trace/inputs.h"
#include "harness/trace/reader.h"

namespace lockstep::golden {
namespace {

constexpr std::string_view kExtension = ".golden";

/// Digits of an entry's digest by which a later one names it.
constexpr std::size_t kDigitsOfDigest = 16;

compare::Comparison compared(const trace::RunTrace& left, const trace::RunTrace& right) {
  return compare::compare_runs(left, right, trace::all_channels(), compare::bitwise);
}

std::optional<std::string> difference_between(const trace::RunTrace& left, const trace::RunTrace& right) {
  if (left.world_size() != right.world_size()) return "a different number of ranks";
  const auto first = compared(left, right).first;
  return first ? std::optional(first->place_and_rank()) : std::nullopt;
}

}  // namespace

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

Entry entry_of(const Acceptable& fresh) {
  const trace::RunTrace& run = fresh.repeats.at(0);
  Entry entry{.key = fresh.key,
              .history = {},
              .recipe = fresh.recipe,
              .channels = fresh.channels,
              .run = {.run = "golden", .ranks = {}, .files = {}}};
  for (const trace::Trace& rank : run.ranks) {
    trace::Trace kept{.origin = rank.origin,
                      .header = Json::object(),
                      .rank = rank.rank,
                      .world_size = rank.world_size,
                      .steps = {},
                      .complete = true,
                      .torn = {},
                      .damage = {}};
    for (const char* key : {"train_digest", "samples", "environment"}) {
      if (rank.header.contains(key)) kept.header[key] = rank.header[key];
    }
    if (rank.header.contains("inputs")) kept.header["inputs"] = trace::inputs_in(rank.header, run.written);
    for (const trace::Step& step : rank.steps) {
      kept.steps.push_back({.step = step.step, .records = {}});
      for (const trace::Record& record : step.records) {
        if (fresh.channels.contains(record.channel) && !trace::is_note(record.channel, record.name))
          kept.steps.back().records.push_back(as_kept(record));
      }
    }
    entry.run.ranks.push_back(std::move(kept));
  }
  entry.environment = entry.run.ranks[0].header.value("environment", Json::object());
  entry.history = {fresh.acceptance};
  entry.history[0].repeats = static_cast<std::int64_t>(fresh.repeats.size());
  return entry;
}

std::filesystem::path golden_file(const std::filesystem::path& root, const std::string& scenario,
                                  const std::string& variant) {
  return root / scenario / (variant + std::string(kExtension));
}

std::optional<Golden> read_golden(const std::filesystem::path& file) {
  if (!is_there(file)) return std::nullopt;
  const std::string text = read_file(file);
  Golden golden = golden_from(text, file.string());
  golden.sha256 = sha256(text);
  return golden;
}

bool is_same_training(const Entry& before, const Entry& fresh) {
  Entry as_before = fresh;
  as_before.history = before.history;
  as_before.environment = before.environment;
  as_before.recipe = before.recipe;
  return body_of(as_before) == body_of(before);
}

namespace {

/// The golden that an acceptance goes into, with the history of its entry.
struct Place {
  Golden golden;
  std::vector<Acceptance> history;
};

/// What is there already. Of a golden that cannot be read, whole entries of other keys stay, and the history of this
/// one. *Throws*: what reading it throws, where an entry of another key would be lost.
Place place_in(const std::filesystem::path& file, const Name& name, const std::string& key) {
  Place place{.golden = {.scenario = name.scenario, .variant = name.variant, .entries = {}}, .history = {}};
  if (!is_there(file)) return place;
  const std::string text = read_file(file);
  try {
    Golden found = golden_from(text, file.string());
    if (found.scenario != name.scenario || found.variant != name.variant) return place;
    place.golden = std::move(found);
  } catch (const Error&) {
    place.golden.entries = whole_entries_in(text);
    std::set<std::string> lost = keys_in(text);
    lost.erase(key);
    for (const Entry& entry : place.golden.entries) lost.erase(entry.key);
    if (!lost.empty()) throw;
  }
  place.history = history_in(text, key);
  return place;
}

void put(Golden& golden, Entry entry) {
  std::erase_if(golden.entries, [&](const Entry& other) { return other.key == entry.key; });
  const auto behind = std::find_if(golden.entries.begin(), golden.entries.end(),
                                   [&](const Entry& other) { return other.key > entry.key; });
  golden.entries.insert(behind, std::move(entry));
}

/// Largest shift of a number, in parts of what it was.
class LargestShift {
 public:
  void take(double before, double after) {
    const double shift = std::fabs(after - before) / std::max(std::fabs(before), std::numeric_limits<double>::min());
    if (shift > largest_) largest_ = shift;
  }
  double largest() const { return largest_; }

 private:
  double largest_ = 0;
};

/// The golden with an entry put into it; `moved` of its acceptance is filled in.
struct Prepared {
  Outcome outcome;
  std::string text;
};

Prepared prepare(const std::filesystem::path& file, const Name& name, Entry entry) {
  const bool was_there = is_there(file);
  Place place = place_in(file, name, entry.key);
  const Entry* const before = place.golden.find(entry.key);
  if (before != nullptr && is_same_training(*before, entry)) return {{Accepted::kUnchanged, ""}, ""};
  Acceptance& acceptance = entry.history.at(0);
  acceptance.replaces = before == nullptr ? (place.history.empty() ? "nothing" : "what could not be read")
                                          : before->digest.substr(0, kDigitsOfDigest);
  acceptance.moved = before == nullptr ? "" : movement(before->run, entry.run);
  const Outcome outcome{was_there ? Accepted::kChanged : Accepted::kNew, acceptance.moved};
  entry.history.insert(entry.history.end(), place.history.begin(), place.history.end());
  put(place.golden, std::move(entry));
  return {outcome, to_text(place.golden)};
}

/// Removes what killed processes left in the folder of a golden. It must be locked: no other process writes there.
void remove_half_written(const std::filesystem::path& folder) {
  for (const std::filesystem::path& entry : entries_of(folder)) {
    std::error_code ignored;  // the next one tries again
    if (is_half_written(entry)) std::filesystem::remove(entry, ignored);
  }
}

}  // namespace

Outcome preview(const std::filesystem::path& file, const Name& name, const Entry& entry) {
  return prepare(file, name, entry).outcome;
}

Outcome accept(const std::filesystem::path& file, const Name& name, const Entry& entry) {
  make_lasting_directories(file.parent_path());
  const FolderLock lock(file.parent_path());
  remove_half_written(file.parent_path());
  const Prepared prepared = prepare(file, name, entry);
  if (prepared.outcome.what != Accepted::kUnchanged) replace_file(file, prepared.text);
  return prepared.outcome;
}

Outcome accept(const std::filesystem::path& file, const Acceptable& fresh) {
  require_proof(fresh.repeats);
  return accept(file, fresh.name, entry_of(fresh));
}

bool remove_entry(const std::filesystem::path& file, const std::string& key) {
  const FolderLock lock(file.parent_path());
  remove_half_written(file.parent_path());
  std::optional<Golden> golden = read_golden(file);
  if (!golden || golden->find(key) == nullptr) return false;
  std::erase_if(golden->entries, [&](const Entry& entry) { return entry.key == key; });
  if (!golden->entries.empty()) {
    replace_file(file, to_text(*golden));
    return true;
  }
  std::error_code error;
  std::filesystem::remove(file, error);
  if (error) throw ResourceError({.what = "cannot remove a golden: " + error.message(), .where = file.string()});
  return true;
}

std::string movement(const trace::RunTrace& before, const trace::RunTrace& after) {
  if (before.world_size() != after.world_size())
    return std::to_string(before.world_size()) + " -> " + std::to_string(after.world_size()) + " ranks";
  const auto first = compared(before, after).first;
  return first ? "from " + first->place() + "; " + shift_of(before, after) : "";
}

std::string shift_of(const trace::RunTrace& before, const trace::RunTrace& after) {
  LargestShift loss, norm;
  for (std::size_t rank = 0; rank < before.ranks.size(); ++rank) {
    for (const trace::Step& step : before.ranks[rank].steps) {
      const laws::Held now(after, rank, step.step);
      for (const trace::Record& record : step.records) {
        const trace::Record* const other = now.find(record.channel, record.name);
        if (other == nullptr) continue;
        const bool is_loss = record.channel == trace::Channel::kLoss && record.number && other->number;
        if (is_loss) loss.take(*record.number, *other->number);
        if (!is_loss && record.norm && other->norm) norm.take(*record.norm, *other->norm);
      }
    }
  }
  return "losses by up to " + rounded(loss.largest(), 2) + " of theirs, norms by up to " + rounded(norm.largest(), 2);
}

std::vector<std::filesystem::path> goldens_in(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  if (!is_folder(root)) return files;
  for (const std::string& name : files_below(root)) {
    if (name.ends_with(kExtension)) files.push_back(root / name);
  }
  return files;
}

std::string name_of_golden(const std::filesystem::path& root, const std::filesystem::path& file) {
  return file.lexically_relative(root).replace_extension().string();
}

namespace {

namespace fs = std::filesystem;

/// Folders of the format before, for each class of processors: <root>/<scenario>/<key>/<variant>/rank0.jsonl.
std::vector<fs::path> old_goldens(const fs::path& root) {
  std::vector<fs::path> found;
  for (const fs::path& scenario : entries_of(root)) {
    if (!is_folder(scenario)) continue;
    for (const fs::path& key : entries_of(scenario)) {
      if (!is_folder(key)) continue;
      for (const fs::path& variant : entries_of(key)) {
        if (is_there(variant / trace::file_name_of_rank(0))) found.push_back(variant);
      }
    }
  }
  return found;
}

/// What the first line of the format before said of an acceptance.
std::string origin_in(const Json& header, const char* what) {
  const Json golden = header.value("golden", Json::object());
  const Json said = golden.is_object() ? golden.value(what, Json()) : Json();
  return said.is_string() ? said.get<std::string>() : "unknown";
}

/// Channels that the recipe of a golden records.
std::set<trace::Channel> recorded_in(const Json& golden) {
  std::set<trace::Channel> channels;
  const Json named = golden.is_object() ? golden.value("/train/record/channels"_json_pointer, Json()) : Json();
  for (const trace::Channel channel : trace::all_channels()) {
    if (!named.is_array() || std::find(named.begin(), named.end(), name_of(channel)) != named.end())
      channels.insert(channel);
  }
  return channels;
}

void migrate_one(const fs::path& folder, const fs::path& file) {
  const trace::RunTrace run = trace::read_run(folder, "golden");
  if (const std::string torn = run.torn(); !torn.empty())
    throw DamagedFile(
        {.what = "a golden is torn: " + torn, .where = folder.string(), .next = "restore it from version control"});
  const Json& header = run.ranks[0].header;
  const Json golden = header.value("golden", Json::object());
  const Acceptable old{.name = {header.value("scenario", ""), header.value("variant", "")},
                       .key = folder.parent_path().filename().string(),
                       .recipe = golden.is_object() ? golden.value("train", Json::object()) : Json::object(),
                       .channels = recorded_in(golden),
                       .repeats = {run, run},
                       .acceptance = {.date = origin_in(header, "date"), .reason = origin_in(header, "reason")}};
  accept(file, old);
}

}  // namespace

std::vector<fs::path> migrate(const fs::path& root) {
  std::vector<fs::path> files;
  const std::vector<fs::path> folders = old_goldens(root);
  for (const fs::path& folder : folders) {
    const fs::path file =
        golden_file(root, folder.parent_path().parent_path().filename().string(), folder.filename().string());
    migrate_one(folder, file);
    if (files.empty() || files.back() != file) files.push_back(file);
  }
  for (const fs::path& folder : folders) {  // once all are written
    std::error_code error;
    fs::remove_all(folder, error);
    if (error)
      throw ResourceError(
          {.what = "cannot remove a golden of the format before: " + error.message(), .where = folder.string()});
    fs::remove(folder.parent_path(), error);  // the last one empties it
  }
  return files;
}

bool has_old_format(const fs::path& root, const std::string& scenario, const std::string& variant) {
  if (!is_there(root / scenario)) return false;
  const std::vector<fs::path> keys = entries_of(root / scenario);
  return std::any_of(keys.begin(), keys.end(), [&](const fs::path& key) {
    return is_folder(key) && is_there(key / variant / trace::file_name_of_rank(0));
  });
}

}  // namespace lockstep::golden
