#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/golden/golden_file.h"
#include "harness/trace/trace.h"

namespace lockstep::golden {

/// File of one golden: <root>/<scenario>/<variant>.golden, with one entry for each key (processors.h).
std::filesystem::path golden_file(const std::filesystem::path& root, const std::string& scenario,
                                  const std::string& variant);

/// Reads a golden; nothing if there is none.
/// *Throws*: StaleGolden if somebody has to decide before; DamagedFile if it is not as `accept` wrote it.
std::optional<Golden> read_golden(const std::filesystem::path& file);

/// Result of an acceptance.
enum class Accepted { kNew, kChanged, kUnchanged };

/// Training that a golden belongs to.
struct Name {
  std::string scenario;
  std::string variant;
};

/// Trace to accept, and its origin.
struct Acceptable {
  Name name;
  std::string key;                    ///< processors.h
  Json recipe;                        ///< with all defaults filled in
  std::set<trace::Channel> channels;  ///< that checks compare: the golden holds no others
  std::vector<trace::RunTrace> repeats;
  Acceptance acceptance;  ///< its repeats, what it replaces and what moved are filled in
};

/// *Throws*: InputError unless there are at least two repeats, all complete, bitwise equal and finite.
void require_proof(const std::vector<trace::RunTrace>& repeats);

/// The first repeat as an entry, proven or not. There must be one.
Entry entry_of(const Acceptable& fresh);

/// Whether both are of one training with equal bits: who accepted it, and where, makes no difference.
bool is_same_training(const Entry& before, const Entry& fresh);

/// Effect of an acceptance.
struct Outcome {
  Accepted what = Accepted::kUnchanged;
  std::string moved;  ///< how the entry differs from the one before
};

/// Puts an entry with one acceptance into a golden, which keeps its other entries and the history of this one. A reader
/// sees the old golden or the new one; of two writers, the second one adds to what the first one wrote.
/// *Throws*: StaleGolden, DamagedFile for a golden with other entries that cannot be read; ResourceError.
Outcome accept(const std::filesystem::path& file, const Name& name, const Entry& entry);

/// The same without writing.
Outcome preview(const std::filesystem::path& file, const Name& name, const Entry& entry);

/// Accepts what is proven. *Throws*: as require_proof and accept.
Outcome accept(const std::filesystem::path& file, const Acceptable& fresh);

/// Removes the entry of a key from a golden, and the golden with its last one. *Returns*: whether it had one.
/// *Throws*: as read_golden; ResourceError.
bool remove_entry(const std::filesystem::path& file, const std::string& key);

/// How an entry differs from the one that it replaces: from where, and how far. Empty: not at all.
std::string movement(const trace::RunTrace& before, const trace::RunTrace& after);

/// How far losses and norms of two runs of as many ranks are apart: "losses by up to 1e-07 of theirs, norms by …".
std::string shift_of(const trace::RunTrace& before, const trace::RunTrace& after);

/// Files of the goldens in a folder, in the order of their bytes; none if it is not there.
std::vector<std::filesystem::path> goldens_in(const std::filesystem::path& root);

/// Name of a golden by its file: "world-size/w3".
std::string name_of_golden(const std::filesystem::path& root, const std::filesystem::path& file);

/// Rewrites a golden of the format before, a folder for each class of processors, and removes its folders.
/// *Returns*: the files that it wrote. *Throws*: InputError, DamagedFile, ResourceError.
std::vector<std::filesystem::path> migrate(const std::filesystem::path& root);

/// Whether goldens of the format before are there for a variant.
bool has_old_format(const std::filesystem::path& root, const std::string& scenario, const std::string& variant);

}  // namespace lockstep::golden
