#include "harness/golden/golden_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "harness/base/hash.h"
#include "harness/base/text.h"
#include "harness/golden/cells.h"
#include "harness/golden/curve.h"
#include "harness/golden/words.h"

namespace lockstep::golden {
namespace {

using trace::Channel;
using trace::Record;
using trace::RunTrace;
using trace::Step;

constexpr std::string_view kNotice =
    "# An accepted training. 'lockstep golden accept' writes it; docs/goldens.md explains it.";
constexpr std::string_view kKey = "key";
constexpr std::string_view kRepeats = "repeats";
constexpr std::string_view kBetweenSides = "=======";  // of a merge conflict
constexpr const char* kAbsent = "-";
constexpr const char* kNextCell = "|";

/// Texts of an acceptance behind its date and repeats, in order, each behind its name.
struct Part {
  const char* name;
  std::string Acceptance::*text;
};
constexpr std::array<Part, 5> kParts = {{{"by", &Acceptance::by},
                                         {"commit", &Acceptance::commit},
                                         {"replaces", &Acceptance::replaces},
                                         {"reason", &Acceptance::reason},
                                         {"moved", &Acceptance::moved}}};

std::string line_of(const Acceptance& acceptance) {
  std::string line = "accepted " + word_of(acceptance.date) + " repeats " + std::to_string(acceptance.repeats);
  for (const Part& part : kParts) line += std::string(" ") + part.name + " " + word_of(acceptance.*part.text);
  return line;
}

Acceptance acceptance_from(const std::vector<std::string_view>& words) {
  if (words.size() != 4 + 2 * kParts.size() || words[2] != kRepeats) throw std::runtime_error("it is no acceptance");
  Acceptance acceptance;
  acceptance.date = text_of_word(words[1]);
  acceptance.repeats = std::stoll(std::string(words[3]));
  std::size_t at = 4;
  for (const Part& part : kParts) {
    if (words[at] != part.name) throw std::runtime_error("it is no acceptance");
    acceptance.*part.text = text_of_word(words[at + 1]);
    at += 2;
  }
  return acceptance;
}

/// "-1..7,9" of rising numbers.
std::string ranges_of(const std::vector<Step>& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t end = i;
    while (end + 1 < steps.size() && steps[end + 1].step == steps[end].step + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(steps[i].step) +
            (end > i ? ".." + std::to_string(steps[end].step) : "");
    i = end + 1;
  }
  return text.empty() ? kAbsent : text;
}

/// Longest list of steps that a line may ask for: more is damage, and would take all memory.
constexpr std::int64_t kMostSteps = 10'000'000;

std::vector<Step> steps_from(std::string_view text) {
  std::vector<Step> steps;
  if (text == kAbsent) return steps;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string range(text.substr(0, comma));
    const std::size_t dots = range.find("..");
    const std::int64_t first = std::stoll(range);
    const std::int64_t last = dots == std::string::npos ? first : std::stoll(range.substr(dots + 2));
    if (last < first || last - first > kMostSteps || (!steps.empty() && first <= steps.back().step))
      throw std::runtime_error("its steps do not rise");
    for (std::int64_t step = first; step <= last; ++step) steps.push_back({.step = step, .records = {}});
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return steps;
}

/// Cells of all ranks, as one where they are alike.
std::string row_of(std::vector<std::string> cells) {
  const bool alike =
      std::all_of(cells.begin(), cells.end(), [&](const std::string& cell) { return cell == cells.front(); });
  if (alike) cells.resize(1);
  return join(cells, std::string(" ") + kNextCell + " ");
}

/// Records of one name in one step: those that each rank holds at that place; null: none.
struct Row {
  Channel channel;
  std::string name;
  std::vector<const Record*> of_rank;
};

bool is_of(const Record& record, const Row& row) { return record.channel == row.channel && record.name == row.name; }

/// Rows of one step, so that each rank's records keep their order.
std::vector<Row> rows_of_step(const RunTrace& run, std::int64_t step) {
  struct Rest {
    std::vector<Record>::const_iterator at, end;
  };
  static const std::vector<Record> kNone;
  std::vector<Rest> rests;
  for (const trace::Trace& rank : run.ranks) {
    const Step* const found = rank.find(step);
    const std::vector<Record>& records = found == nullptr ? kNone : found->records;
    rests.push_back({records.begin(), records.end()});
  }
  std::vector<Row> rows;
  const auto take_alone = [&](std::size_t rank) {
    Row row{rests[rank].at->channel, rests[rank].at->name, std::vector<const Record*>(rests.size())};
    row.of_rank[rank] = &*rests[rank].at++;
    rows.push_back(std::move(row));
  };
  const auto take_with_all = [&](std::size_t first) {
    Row row{rests[first].at->channel, rests[first].at->name, std::vector<const Record*>(rests.size())};
    for (std::size_t rank = 0; rank < rests.size(); ++rank) {
      Rest& rest = rests[rank];
      const auto found = std::find_if(rest.at, rest.end, [&](const Record& record) { return is_of(record, row); });
      if (found == rest.end) continue;
      while (rest.at != found) take_alone(rank);
      row.of_rank[rank] = &*rest.at++;
    }
    rows.push_back(std::move(row));
  };
  for (std::size_t first = 0; first < rests.size(); ++first) {
    while (rests[first].at != rests[first].end) take_with_all(first);
  }
  return rows;
}

/// Type of each name where it stands first.
class Types {
 public:
  /// The type to write before a cell; empty where it is the usual one.
  std::string before(const Record& record) {
    const std::string type = type_of(record);
    const auto [usual, is_new] = usual_.try_emplace({record.channel, record.name}, type);
    if (is_new)
      table_.push_back("tensor " + std::string(name_of(record.channel)) + " " + word_of(record.name) + " " + type);
    return usual->second == type ? "" : type + " ";
  }

  const std::vector<std::string>& table() const { return table_; }

  void take(Channel channel, const std::string& name, std::string type) {
    if (!usual_.try_emplace({channel, name}, std::move(type)).second)
      throw std::runtime_error("a tensor stands twice in the table");
  }

  const std::string& usual(Channel channel, const std::string& name) const {
    const auto found = usual_.find({channel, name});
    if (found == usual_.end()) throw std::runtime_error("the tensor is not in the table");
    return found->second;
  }

 private:
  std::map<std::pair<Channel, std::string>, std::string> usual_;
  std::vector<std::string> table_;
};

std::set<std::int64_t> steps_of(const RunTrace& run) {
  std::set<std::int64_t> steps;
  for (const trace::Trace& rank : run.ranks) {
    for (const Step& step : rank.steps) steps.insert(step.step);
  }
  return steps;
}

/// The lines that tell of a step for eyes.
std::vector<std::string> curve_of(const RunTrace& run) {
  std::vector<std::string> lines;
  for (const std::int64_t step : steps_of(run)) {
    if (const std::string at = curve_at(run, step); !at.empty()) lines.push_back("curve " + std::to_string(step) + at);
  }
  return lines;
}

/// The cell of a gradient that equals the local one: of one rank, or of ranks that all have the same.
constexpr const char* kAsLocal = "=gradient.local";

/// Lines of a table with all records; `types` learns their types.
std::vector<std::string> table_of(const RunTrace& run, Types& types) {
  std::vector<std::string> lines;
  for (const std::int64_t step : steps_of(run)) {
    std::map<std::string, std::string> local;  // rows of gradient.local
    for (const Row& row : rows_of_step(run, step)) {
      std::vector<std::string> cells;
      for (const Record* record : row.of_rank)
        cells.push_back(record == nullptr ? kAbsent : types.before(*record) + cell_of(*record));
      std::string text = row_of(cells);
      const bool of_all_ranks = std::find(row.of_rank.begin(), row.of_rank.end(), nullptr) == row.of_rank.end();
      if (row.channel == Channel::kGradientLocal && of_all_ranks) local.try_emplace(row.name, text);
      const auto found = row.channel == Channel::kGradient ? local.find(row.name) : local.end();
      if (found != local.end() && found->second == text) text = kAsLocal;
      lines.push_back(std::to_string(step) + " " + std::string(name_of(row.channel)) + " " + word_of(row.name) + " " +
                      text);
    }
  }
  return lines;
}

/// Calls `take` with each line and its place in the text.
template <typename Take>
void for_each_line(const std::string& text, const Take& take) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    take(std::string_view(text).substr(at, end - at), at);
    at = end + 1;
  }
}

std::string names_of(const Golden& golden) {
  return "scenario " + word_of(golden.scenario) + "\nvariant " + word_of(golden.variant) + "\n";
}

/// The digest of an entry, and of the training that it belongs to.
std::string digest_of(const Golden& golden, std::string_view body) {
  return sha256(names_of(golden) + std::string(body));
}

/// Reads the lines of one file in turn.
class GoldenParser {
 public:
  GoldenParser(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {}

  Golden parse() {
    require_no_conflict();
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t newline = text_.find('\n', at);
      ++line_;
      if (newline == std::string::npos) fail("it breaks off in the middle");
      const std::string_view line = std::string_view(text_).substr(at, newline - at);
      try {
        read(line, at);
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        fail(error.what());
      }
      at = newline + 1;
    }
    if (entry_) fail("the last line of its entry is missing");
    if (golden_.entries.empty()) fail("it has no entry");
    require_only_form();
    return std::move(golden_);
  }

 private:
  /// Before anything else: what stands amid markers is damaged in any case.
  void require_no_conflict() const {
    std::size_t number = 0;
    for_each_line(text_, [&](std::string_view line, std::size_t) {
      ++number;
      if (line.starts_with("<<<<<<< ") || line == kBetweenSides || line.starts_with(">>>>>>> "))
        throw StaleGolden({.what = "a golden holds the markers of a merge conflict",
                           .where = origin_ + ", line " + std::to_string(number),
                           .expected = "one side of the merge, or a golden of what was merged",
                           .next = "accept it again: the acceptances of both sides are kept"});
    });
  }

  /// One line: its words, what stands behind the first one, and where it begins.
  struct Line {
    std::vector<std::string_view> words;
    std::string_view rest;
    std::size_t at;
  };

  void read(std::string_view text, std::size_t at) {
    if (line_ == 1 && text != kGoldenFormat) fail("its first line is not " + std::string(kGoldenFormat));
    if (line_ == 1 || text.empty() || text == kNotice) return;
    const std::vector<std::string_view> words = words_in(text);
    if (words.size() < 2) throw std::runtime_error("it is no line of a golden");
    const Line line{.words = words, .rest = text.substr(words[0].size() + 1), .at = at};
    const auto of_head = kOfHead.find(words[0]);
    if (of_head == kOfHead.end() && !entry_) throw std::runtime_error("it is outside of an entry");
    const auto of_entry = kOfEntry.find(words[0]);
    const auto reader = of_head != kOfHead.end()     ? of_head->second
                        : of_entry != kOfEntry.end() ? of_entry->second
                                                     : &GoldenParser::read_record;
    (this->*reader)(line);
  }

  void read_scenario(const Line& line) { golden_.scenario = text_of_word(line.rest); }
  void read_variant(const Line& line) { golden_.variant = text_of_word(line.rest); }

  void read_key(const Line& line) {
    if (entry_) throw std::runtime_error("an entry begins within another one");
    begin_ = line.at;
    entry_ = Entry{.key = text_of_word(line.rest),
                   .history = {},
                   .channels = {},
                   .run = {.run = "golden", .ranks = {}, .files = {}}};
    types_ = {};
  }

  void read_acceptance(const Line& line) { entry_->history.push_back(acceptance_from(line.words)); }
  void read_environment(const Line& line) { take_line_of_object(entry_->environment, line.rest); }
  void read_recipe(const Line& line) { take_line_of_object(entry_->recipe, line.rest); }
  void read_train_digest(const Line& line) { header_["train_digest"] = text_of_word(line.rest); }
  void read_samples(const Line& line) { header_["samples"] = std::stoll(std::string(line.rest)); }
  void read_curve(const Line&) {}  // it follows from the records

  void read_input(const Line& line) {
    if (!header_.contains("inputs")) header_["inputs"] = Json::object();
    take_line_of_object(header_["inputs"], line.rest);
  }

  void read_channels(const Line& line) {
    for (std::size_t i = 1; i < line.words.size(); ++i) entry_->channels.insert(channel_from(line.words[i]));
  }

  void read_tensor(const Line& line) {
    if (line.words.size() != 4) throw std::runtime_error("it is no tensor");
    types_.take(channel_from(line.words[1]), text_of_word(line.words[2]), std::string(line.words[3]));
  }

  void read_ranks(const Line& line) {
    const std::int64_t ranks = std::stoll(std::string(line.rest));
    constexpr std::int64_t kMost = 1'000'000;
    if (ranks < 1 || ranks > kMost || !entry_->run.ranks.empty())
      throw std::runtime_error("its ranks are not a number");
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      entry_->run.ranks.push_back({.origin = origin_,
                                   .header = {},
                                   .rank = rank,
                                   .world_size = ranks,
                                   .steps = {},
                                   .complete = true,
                                   .torn = {},
                                   .damage = {}});
  }

  /// Words between separators: one part for each rank, or one for all.
  std::vector<std::vector<std::string_view>> parts_of(const std::vector<std::string_view>& words,
                                                      std::size_t from) const {
    std::vector<std::vector<std::string_view>> parts(1);
    for (std::size_t i = from; i < words.size(); ++i) {
      if (words[i] == kNextCell) {
        parts.emplace_back();
      } else {
        parts.back().push_back(words[i]);
      }
    }
    const std::size_t ranks = entry_->run.ranks.size();
    if (ranks == 0 || (parts.size() != 1 && parts.size() != ranks))
      throw std::runtime_error("it is of another number of ranks");
    if (parts.size() == 1) parts.resize(ranks, parts.front());
    return parts;
  }

  void read_steps(const Line& line) {
    const auto parts = parts_of(line.words, 1);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (parts[rank].size() != 1) throw std::runtime_error("its steps are no list");
      entry_->run.ranks[rank].steps = steps_from(parts[rank][0]);
    }
    at_step_.assign(parts.size(), 0);
  }

  void read_record(const Line& line) {
    const std::vector<std::string_view>& words = line.words;
    if (words.size() < 4 || at_step_.empty()) throw std::runtime_error("it is no line of a golden");
    const std::int64_t number = std::stoll(std::string(words[0]));
    const Channel channel = channel_from(words[1]);
    const std::string name = text_of_word(words[2]);
    const auto parts = parts_of(words, 3);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (parts[rank].size() == 1 && parts[rank][0] == kAbsent) continue;
      std::vector<Step>& steps = entry_->run.ranks[rank].steps;
      std::size_t& at = at_step_[rank];
      while (at < steps.size() && steps[at].step < number) ++at;
      if (at == steps.size() || steps[at].step != number) throw std::runtime_error("its step is not in the list");
      const bool as_local = parts[rank].size() == 1 && parts[rank][0] == kAsLocal;
      steps[at].records.push_back(as_local ? local_gradient(steps[at], name)
                                           : record_from(channel, name, types_.usual(channel, name), parts[rank]));
    }
  }

  static Record local_gradient(const Step& step, const std::string& name) {
    const Record* const local = step.find(Channel::kGradientLocal, name);
    if (local == nullptr) throw std::runtime_error("there is no such local gradient");
    Record record = *local;
    record.channel = Channel::kGradient;
    return record;
  }

  void read_end(const Line& line) {
    if (line.rest != digest_of(golden_, std::string_view(text_).substr(begin_, line.at - begin_)))
      fail("the SHA-256 does not match the lines of the entry '" + entry_->key + "'");
    if (entry_->history.empty() || at_step_.empty()) throw std::runtime_error("its entry lacks lines");
    entry_->digest = line.rest;
    header_["scenario"] = golden_.scenario;
    header_["variant"] = golden_.variant;
    header_["environment"] = entry_->environment;
    for (trace::Trace& rank : entry_->run.ranks) rank.header = header_;
    golden_.entries.push_back(std::move(*entry_));
    entry_.reset();
    header_ = Json::object();
    at_step_.clear();
  }

  /// What is written in another way would be read and not be seen: a line twice, a curve of other numbers.
  void require_only_form() {
    const std::string form = to_text(golden_);
    if (form == text_) return;
    const auto differs = std::mismatch(form.begin(), form.end(), text_.begin(), text_.end());
    line_ = static_cast<std::size_t>(std::count(form.begin(), differs.first, '\n')) + 1;
    fail("it is not as lockstep writes it");
  }

  static Channel channel_from(std::string_view word) {
    const auto channel = trace::channel_named(word);
    if (!channel) throw std::runtime_error("'" + std::string(word) + "' is no channel");
    return *channel;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DamagedFile({.what = "a golden is damaged: " + what,
                       .where = origin_ + ", line " + std::to_string(std::max<std::size_t>(line_, 1)),
                       .next = "restore it from version control"});
  }

  using Reader = void (GoldenParser::*)(const Line&);
  static const std::map<std::string_view, Reader> kOfHead, kOfEntry;  ///< by a line's first word; others are records

  const std::string& text_;
  const std::string& origin_;
  Golden golden_;
  std::optional<Entry> entry_;
  Json header_ = Json::object();
  Types types_;
  std::vector<std::size_t> at_step_;  ///< for each rank the step that its next records may belong to
  std::size_t begin_ = 0;             ///< of the entry
  std::size_t line_ = 0;
};

const std::map<std::string_view, GoldenParser::Reader> GoldenParser::kOfHead = {
    {"scenario", &GoldenParser::read_scenario},
    {"variant", &GoldenParser::read_variant},
    {kKey, &GoldenParser::read_key}};

const std::map<std::string_view, GoldenParser::Reader> GoldenParser::kOfEntry = {
    {"accepted", &GoldenParser::read_acceptance}, {"environment", &GoldenParser::read_environment},
    {"recipe", &GoldenParser::read_recipe},       {"train_digest", &GoldenParser::read_train_digest},
    {"channels", &GoldenParser::read_channels},   {"ranks", &GoldenParser::read_ranks},
    {"samples", &GoldenParser::read_samples},     {"input", &GoldenParser::read_input},
    {"steps", &GoldenParser::read_steps},         {"curve", &GoldenParser::read_curve},
    {"tensor", &GoldenParser::read_tensor},       {"end", &GoldenParser::read_end}};

}  // namespace

const Entry* Golden::find(const std::string& key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

std::string body_of(const Entry& entry) {
  const Json& header = entry.run.ranks.front().header;
  std::vector<std::string> lines = {"key " + word_of(entry.key)};
  for (const Acceptance& acceptance : entry.history) lines.push_back(line_of(acceptance));
  for (const std::string& line : lines_of_object(entry.environment)) lines.push_back("environment " + line);
  for (const std::string& line : lines_of_object(entry.recipe)) lines.push_back("recipe " + line);
  lines.push_back("train_digest " + word_of(header.value("train_digest", "")));
  std::vector<std::string> channels;
  for (const Channel channel : entry.channels) channels.emplace_back(name_of(channel));
  lines.push_back("channels " + join(channels, " "));
  lines.push_back("ranks " + std::to_string(entry.run.world_size()));
  if (header.contains("samples")) lines.push_back("samples " + header["samples"].dump());
  for (const std::string& line : lines_of_object(header.value("inputs", Json::object())))
    lines.push_back("input " + line);
  std::vector<std::string> steps;
  for (const trace::Trace& rank : entry.run.ranks) steps.push_back(ranges_of(rank.steps));
  lines.push_back("steps " + row_of(steps));
  const auto append = [&lines](const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  append(curve_of(entry.run));
  Types types;
  const std::vector<std::string> records = table_of(entry.run, types);
  append(types.table());
  append(records);
  return join(lines, "\n") + "\n";
}

std::string to_text(const Golden& golden) {
  std::string text = std::string(kGoldenFormat) + "\n" + std::string(kNotice) + "\n" + names_of(golden);
  for (const Entry& entry : golden.entries) {
    const std::string body = body_of(entry);
    text += "\n" + body + "end " + digest_of(golden, body) + "\n";
  }
  return text;
}

Golden golden_from(const std::string& text, const std::string& origin) { return GoldenParser(text, origin).parse(); }

namespace {

/// The key that a line begins an entry with; empty: it begins none.
std::string key_begun_by(std::string_view line) {
  try {
    const std::vector<std::string_view> words = words_in(line);
    return words.size() == 2 && words[0] == kKey ? text_of_word(words[1]) : "";
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

std::vector<Entry> whole_entries_in(const std::string& text) {
  std::vector<Entry> entries;
  std::string head;
  std::optional<std::size_t> begin;
  for_each_line(text, [&](std::string_view line, std::size_t at) {
    if (!key_begun_by(line).empty()) {
      if (head.empty()) head = text.substr(0, at);
      begin = at;
    }
    if (!begin || !line.starts_with("end ")) return;
    try {
      Golden golden = golden_from(head + text.substr(*begin, at - *begin) + std::string(line) + "\n", "");
      entries.push_back(std::move(golden.entries.front()));
    } catch (const Error&) {
      // not whole
    }
    begin.reset();
  });
  return entries;
}

std::set<std::string> keys_in(const std::string& text) {
  std::set<std::string> keys;
  for_each_line(text, [&](std::string_view line, std::size_t) { keys.insert(key_begun_by(line)); });
  keys.erase("");
  return keys;
}

std::vector<Acceptance> history_in(const std::string& text, const std::string& key) {
  std::vector<Acceptance> history;
  bool is_within = false;
  for_each_line(text, [&](std::string_view line, std::size_t) {
    if (const std::string begun = key_begun_by(line); !begun.empty()) is_within = begun == key;
    if (!is_within || !line.starts_with("accepted ")) return;
    try {
      const Acceptance one = acceptance_from(words_in(line));
      if (std::find(history.begin(), history.end(), one) == history.end()) history.push_back(one);
    } catch (const std::exception&) {
      // a line that cannot be read is lost
    }
  });
  std::stable_sort(history.begin(), history.end(),
                   [](const Acceptance& a, const Acceptance& b) { return a.date > b.date; });
  return history;
}

}  // namespace lockstep::golden
