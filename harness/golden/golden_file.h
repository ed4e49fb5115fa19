#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/trace/trace.h"

/// The file of a golden: lines of text for people, for version control, and for the check. docs/goldens.md describes
/// it.
namespace lockstep::golden {

/// First line of each golden.
inline constexpr std::string_view kGoldenFormat = "lockstep.golden/2";

/// One acceptance. It explains where a golden comes from; no check can verify it.
struct Acceptance {
  std::string date;                  ///< "2027-01-31"
  std::string by = "unknown";        ///< name and address of who accepted it
  std::string commit = "unknown";    ///< of the work tree, "… with changes" where it had some
  std::int64_t repeats = 0;          ///< runs that were equal bit for bit
  std::string replaces = "nothing";  ///< digest of the entry before, its first 16 digits
  std::string reason;
  std::string moved;  ///< how it differs from the entry before

  bool operator==(const Acceptance&) const = default;
};

/// The accepted training of one class of processors.
struct Entry {
  std::string key;                    ///< the class: store.h
  std::vector<Acceptance> history;    ///< the newest first; one at least
  Json environment = Json::object();  ///< of rank 0, when it was accepted
  Json recipe = Json::object();       ///< with all defaults filled in
  std::set<trace::Channel> channels;  ///< that it holds, if the training has them: those that checks compare
  /// Headers hold what the check compares; records lack sketches, largest elements, elements and rows.
  trace::RunTrace run;
  std::string digest = {};  ///< SHA-256 of its lines
};

/// Accepted traces of one variant: one entry for each class of processors, sorted by key.
struct Golden {
  std::string scenario;
  std::string variant;
  std::vector<Entry> entries;
  std::string sha256 = {};  ///< of its file

  const Entry* find(const std::string& key) const;
};

/// A golden that nobody can compare with before somebody decides: merge conflicts, an older format (exit 3).
class StaleGolden : public InputError {
  using InputError::InputError;
};

/// The golden's only form: equal goldens have equal texts.
std::string to_text(const Golden& golden);

/// Reads what `to_text` wrote. Any other text is an error, though it may mean the same.
/// *Throws*: StaleGolden (conflict markers); DamagedFile that names the line.
Golden golden_from(const std::string& text, const std::string& origin);

/// Lines of an entry before its last one.
std::string body_of(const Entry& entry);

/// Entries that are whole, of a text that may hold others. In their order.
std::vector<Entry> whole_entries_in(const std::string& text);

/// Keys of all entries that a text begins.
std::set<std::string> keys_in(const std::string& text);

/// Acceptances that a text holds for a key, the newest first, though the text may be a merge conflict: of both sides.
std::vector<Acceptance> history_in(const std::string& text, const std::string& key);

}  // namespace lockstep::golden
