#include "harness/diagnosis/loaded_file_causes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "harness/base/text.h"
#include "harness/compare/moments.h"

namespace lockstep::diagnosis {
namespace {

using compare::FilePart;
using compare::Moments;
using compare::Suspect;
using trace::Channel;
using trace::CheckpointFile;
using trace::Record;

/// Names that a verdict lists.
constexpr std::size_t kShownNames = 3;

/// The files of the writer that the resumed run read; none if the tensors of one are not known.
std::vector<CheckpointFile> files_of(const Restart& restart) {
  std::vector<CheckpointFile> found;
  const trace::RunTrace* writer = restart.writer();
  if (writer == nullptr) return found;
  for (const CheckpointFile& read : restart.resumed.run->files) {
    if (read.written) continue;
    const auto is_it = [&](const CheckpointFile& file) {
      return file.written && !file.sha256.empty() && file.sha256 == read.sha256;
    };
    const auto written = std::find_if(writer->files.begin(), writer->files.end(), is_it);
    if (written == writer->files.end() || !written->tensors) return {};
    if (std::none_of(found.begin(), found.end(), is_it)) found.push_back(*written);
  }
  return found;
}

std::string called(const CheckpointFile& file) {
  return file.name.empty() ? "the checkpoint" : "the checkpoint " + file.name;
}

/// Records of the state that was saved, and what rank 0 holds instead.
struct Wrong {
  const Record* saved;
  const Record* loaded;  ///< null: not there
};

std::vector<Wrong> wrong_in(const Restart& restart, Channel channel, std::vector<const Record*>* right = nullptr) {
  std::vector<Wrong> wrong;
  const trace::Step* saved = restart.held(0, restart.begin);
  if (saved == nullptr) return wrong;
  for (const Record& record : saved->records) {
    if (record.channel != channel) continue;
    const Record* loaded = restart.loaded(0, channel, record.name);
    if (!trace::same_bits(&record, loaded))
      wrong.push_back({&record, loaded});
    else if (right != nullptr)
      right->push_back(&record);
  }
  return wrong;
}

/// "2 after step 3 (model.0.weight, model.0.bias)"
std::string text_of(const FilePart& part) {
  return std::to_string(part.tensors.size()) + " after step " + std::to_string(part.step) + " (" +
         some_of(part.tensors, kShownNames) + ")";
}

/// Whether a file holds a tensor of these bits.
bool holds_bits(const CheckpointFile& file, const Record& record) {
  const std::string digest = to_text(record.digest);
  return std::any_of(file.tensors->begin(), file.tensors->end(),
                     [&](const auto& tensor) { return tensor.second == digest; });
}

/// Whether all that is wrong in a channel is what a file holds, or what the writer held after one of these steps: some
/// numbers are recorded otherwise than they are saved.
bool explain(const Restart& restart, Channel channel, const std::vector<CheckpointFile>& files,
             const std::vector<FilePart>& parts) {
  const std::vector<Wrong> wrong = wrong_in(restart, channel);
  return !wrong.empty() && std::all_of(wrong.begin(), wrong.end(), [&](const Wrong& one) {
    if (one.loaded == nullptr) return false;
    const auto in_file = [&](const CheckpointFile& file) { return holds_bits(file, *one.loaded); };
    return std::any_of(files.begin(), files.end(), in_file) ||
           std::any_of(parts.begin(), parts.end(), [&](const FilePart& part) {
             return trace::same_bits(restart.held(0, part.step, channel, one.saved->name), one.loaded);
           });
  });
}

/// A file holds tensors of several updates, or files of one checkpoint are of several; what was loaded is what they
/// hold.
std::vector<Suspect> mixed(const Restart& restart, Channel channel, const std::vector<CheckpointFile>& files) {
  const std::string has = " as " + restart.writer()->run + " had them ";
  const std::vector<std::optional<Moments>> moments = compare::moments_of(*restart.writer(), files);
  std::vector<FilePart> parts;
  std::vector<std::string> evidence;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!moments[i]) continue;  // it holds nothing of the state
    std::vector<std::string> texts;
    for (const FilePart& part : moments[i]->parts) texts.push_back(text_of(part));
    parts.insert(parts.end(), moments[i]->parts.begin(), moments[i]->parts.end());
    evidence.push_back(called(files[i]) + " holds tensors" + has +
                       (moments[i]->is_mixed() ? "at different times: " : "") + join(texts, ", "));
    if (!moments[i]->is_mixed()) continue;
    evidence.push_back("no update left all of them so");
    if (!explain(restart, channel, {files[i]}, moments[i]->parts)) return {};
    return {{"ckpt.mixed_updates", {evidence.end() - 2, evidence.end()}}};
  }
  const bool at_once =
      std::all_of(parts.begin(), parts.end(), [&](const FilePart& part) { return part.step == parts[0].step; });
  if (at_once || !explain(restart, channel, files, parts)) return {};
  return {{"ckpt.mixed_updates", evidence}};
}

bool hold(const std::vector<CheckpointFile>& files, const std::string& name) {
  return std::any_of(files.begin(), files.end(), [&](const CheckpointFile& file) {
    return std::any_of(file.tensors->begin(), file.tensors->end(),
                       [&](const auto& tensor) { return tensor.first == name || tensor.first.ends_with("." + name); });
  });
}

/// The files have all weights but those that are wrong after loading.
std::vector<Suspect> lacking(const Restart& restart, Channel channel, const std::vector<CheckpointFile>& files) {
  if (channel != Channel::kWeight) return {};
  std::vector<const Record*> right;
  const std::vector<Wrong> wrong = wrong_in(restart, channel, &right);
  const bool fits = !wrong.empty() && !right.empty() && std::none_of(wrong.begin(), wrong.end(), [&](const Wrong& one) {
    return hold(files, one.saved->name);
  }) && std::all_of(right.begin(), right.end(), [&](const Record* one) { return hold(files, one->name); });
  if (!fits) return {};
  std::vector<std::string> names, evidence;
  for (const Wrong& one : wrong) names.push_back(one.saved->name);
  evidence.push_back(called(files[0]) + (files.size() > 1 ? " and the others that were read hold " : " holds ") +
                     std::to_string(right.size()) + " of the " + std::to_string(right.size() + wrong.size()) +
                     " weights, and not " + some_of(names, kShownNames));
  for (const Wrong& one : wrong) {
    const auto donor = std::find_if(right.begin(), right.end(),
                                    [&](const Record* other) { return trace::same_bits(other, one.loaded); });
    if (donor == right.end() || evidence.size() > kShownNames) continue;
    evidence.push_back(restart.resumed.run->run + ", state after loading: " + one.saved->name + " holds what " +
                       (*donor)->name + " held when the checkpoint was saved");
  }
  return {{"ckpt.keys_dropped", evidence}};
}

}  // namespace

std::vector<Suspect> suspects_in_loaded_file(const Restart& restart, Channel channel) {
  const std::vector<CheckpointFile> files = files_of(restart);
  if (files.empty()) return {};
  if (auto suspects = mixed(restart, channel, files); !suspects.empty()) return suspects;
  return lacking(restart, channel, files);
}

std::optional<bool> checkpoint_holds(const Restart& restart, const Record& record) {
  const std::vector<CheckpointFile> files = files_of(restart);
  if (files.empty()) return std::nullopt;
  return std::any_of(files.begin(), files.end(), [&](const CheckpointFile& file) { return holds_bits(file, record); });
}

}  // namespace lockstep::diagnosis
