#include "harness/compare/checkpoints.h"

#include <map>
#include <utility>

#include "harness/compare/moments.h"

namespace lockstep::compare {
namespace {

using trace::CheckpointFile;

/// Step and rank of a checkpoint.
using Place = std::pair<std::int64_t, std::int64_t>;

/// A file counts as of the moment when its tensors were taken, where that is known; else of its writing. A recorder
/// counts updates from the start of its process; a resumed run's first step tells those before.
std::map<Place, std::vector<const CheckpointFile*>> written_by(const RunAndFiles& side) {
  std::map<Place, std::vector<const CheckpointFile*>> written;
  if (side.run.ranks.empty() || side.run.ranks[0].steps.empty()) return written;
  const std::int64_t first = side.run.ranks[0].steps.front().step;
  const std::vector<std::optional<Moments>> moments = moments_of(side.run, side.files);
  for (std::size_t i = 0; i < side.files.size(); ++i) {
    const CheckpointFile& file = side.files[i];
    const bool is_of_one = moments[i] && !moments[i]->is_mixed();
    const std::int64_t step = is_of_one ? moments[i]->parts[0].step : first + file.updates;
    if (file.written) written[{step, file.rank}].push_back(&file);
  }
  return written;
}

std::string place_of(const Place& place) {
  return place.first < 0 ? "before the first update" : "after step " + std::to_string(place.first);
}

/// One that is saved to memory has no name.
std::string called(const CheckpointFile& file) { return "the checkpoint" + (file.name.empty() ? "" : " " + file.name); }

/// A tensor whose name or content differs: expected and actual.
std::optional<std::pair<std::string, std::string>> difference_of(const CheckpointFile& left,
                                                                 const CheckpointFile& right) {
  const auto shown = [](const std::string& name, const std::string* digest) {
    return "tensor " + name + (digest == nullptr ? ": not there" : ": digest " + *digest);
  };
  const auto content_of = [](const CheckpointFile& file, const std::string& name) {
    const auto found = file.tensors->find(name);
    return found == file.tensors->end() ? nullptr : &found->second;
  };
  for (const auto& [name, digest] : *left.tensors) {
    const std::string* const other = content_of(right, name);
    if (other == nullptr || *other != digest) return std::pair(shown(name, &digest), shown(name, other));
  }
  for (const auto& [name, digest] : *right.tensors) {
    if (content_of(left, name) == nullptr) return std::pair(shown(name, nullptr), shown(name, &digest));
  }
  return std::nullopt;
}

}  // namespace

CheckpointComparison compare_checkpoints(const RunAndFiles& left, const RunAndFiles& right) {
  CheckpointComparison result;
  const auto ours = written_by(left), theirs = written_by(right);
  for (const auto& [place, files] : ours) {
    const auto found = theirs.find(place);
    if (found == theirs.end() || found->second.size() != files.size()) {
      result.notes.push_back("the runs write different numbers of checkpoints " + place_of(place) + " on rank " +
                             std::to_string(place.second) + ": they are not compared");
      continue;
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      const CheckpointFile &one = *files[i], &other = *found->second[i];
      if (!one.tensors || !other.tensors) {
        const bool is_unknown = one.sha256.empty() && one.rank == 0;  // of a folder that all write, rank 0 tells
        if (is_unknown || one.sha256 != other.sha256)
          result.notes.push_back("what " + called(one) + " holds, " + place_of(place) +
                                 ", is not recorded: it is not compared");
        continue;
      }
      const auto difference = difference_of(one, other);
      if (!difference || result.first) continue;
      result.first = Divergence{.step = place.first,
                                .rank = place.second,
                                .phase = called(one),
                                .left = left.run.run,
                                .right = right.run.run,
                                .expected = difference->first,
                                .actual = difference->second,
                                .class_ = scenario::Class::kSemantic,
                                .cause =
                                    "the trainings are equal bit for bit, but their checkpoints differ; look at what "
                                    "changes the state between the update and the save, and at what is saved"};
    }
  }
  for (const auto& [place, files] : theirs) {
    if (!ours.contains(place))
      result.notes.push_back("only " + right.run.run + " writes a checkpoint " + place_of(place) + " on rank " +
                             std::to_string(place.second));
  }
  return result;
}

}  // namespace lockstep::compare
