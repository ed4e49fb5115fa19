#include "harness/compare/moments.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::CheckpointFile;
using trace::Record;

using Steps = std::vector<std::int64_t>;  // ascending, each once

/// Steps after which one rank held what has this digest, and the trace's names for it.
struct Found {
  Steps steps;
  std::set<std::string> names;
};

using ByDigest = std::map<std::string, Found>;

/// "0.weight" of "model1.0.weight", as the trace of several models names it. Their files know no such number.
std::string without_model(const std::string& name) {
  constexpr std::string_view kModel = "model";
  std::size_t at = kModel.size();
  if (!name.starts_with(kModel)) return name;
  while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0) ++at;
  return at > kModel.size() && at < name.size() && name[at] == '.' ? name.substr(at + 1) : name;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// Numbers that stand alone may be equal by chance: counters, losses.
bool is_scalar(const Record& record) {
  return std::all_of(record.shape.begin(), record.shape.end(), [](std::int64_t extent) { return extent == 1; });
}

Steps common(const Steps& a, const Steps& b) {
  Steps both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

/// Digests of the tensors that files hold.
using Wanted = std::set<std::pair<std::uint64_t, std::uint64_t>>;

Wanted wanted_of(const std::vector<CheckpointFile>& files) {
  Wanted wanted;
  for (const CheckpointFile& file : files) {
    if (!file.written || !file.tensors) continue;
    for (const auto& [name, text] : *file.tensors) {
      if (const auto digest = trace::digest_from(text)) wanted.emplace(digest->high, digest->low);
    }
  }
  return wanted;
}

/// When a rank held what files hold. A trace is large, so nothing else of it is kept but names.
class Held {
 public:
  Held(const trace::Trace& rank, const Wanted& wanted) {
    for (const trace::Step& step : rank.steps) {
      for (const Record& record : step.records) add(step.step, record, wanted);
    }
  }

  bool is_weight(const std::string& name) const { return weight_names_.contains(name); }
  bool is_named(const std::string& name) const { return is_weight(name) || buffer_names_.contains(name); }

  /// Moments of the weight or buffer of this name.
  Found named(const std::string& name, const std::string& digest) const {
    return find(is_weight(name) ? weights_ : buffers_, name, digest);
  }

  /// Of any parameter's state of this name: "exp_avg".
  Steps state(const std::string& name, const std::string& digest) const { return find(states_, name, digest).steps; }

 private:
  using ByName = std::map<std::string, ByDigest>;

  static Found find(const ByName& all, const std::string& name, const std::string& digest) {
    const auto of_name = all.find(name);
    if (of_name == all.end()) return {};
    const auto found = of_name->second.find(digest);
    return found == of_name->second.end() ? Found{} : found->second;
  }

  void add(std::int64_t step, const Record& record, const Wanted& wanted) {
    const bool of_update = record.channel == Channel::kOptimizer, is_weight = record.channel == Channel::kWeight;
    if (!is_weight && record.channel != Channel::kBuffer && (!of_update || is_scalar(record))) return;
    const std::string name = of_update ? last_part(record.name) : without_model(record.name);
    if (!of_update) (is_weight ? weight_names_ : buffer_names_).insert(name);
    if (!wanted.contains({record.digest.high, record.digest.low})) return;
    Found& found = (of_update ? states_ : is_weight ? weights_ : buffers_)[name][to_text(record.digest)];
    if (found.steps.empty() || found.steps.back() != step) found.steps.push_back(step);
    if (is_weight) found.names.insert(record.name);
  }

  std::unordered_set<std::string> weight_names_, buffer_names_;
  ByName weights_, buffers_, states_;
};

/// A tensor of a file, and the steps after which the run held it.
struct Known {
  std::string name;
  Steps steps;
};

/// The steps that all share; nothing where there are none at all.
std::optional<Steps> shared(const std::vector<Known>& all) {
  std::optional<Steps> steps;
  for (const Known& one : all) steps = steps ? common(*steps, one.steps) : one.steps;
  return steps;
}

/// One copy of the weights, with its buffers: names with one prefix.
struct Copy {
  std::vector<Known> known;
  bool is_whole = true;  ///< each of its weights is known
  bool has_weights = false;
  std::set<std::string> weights;  ///< that they are, by the trace's names

  Steps steps() const { return *shared(known); }

  /// Whether both are copies of some weight; else they are parts of one whole, such as the models of a GAN.
  bool overlaps(const Copy& other) const {
    return std::any_of(weights.begin(), weights.end(),
                       [&](const std::string& name) { return other.weights.contains(name); });
  }
};

/// The tensors of one file, sorted.
struct Content {
  std::map<std::string, Copy> copies;  ///< by prefix
  std::vector<Known> states;
};

/// Not after the last step at which the file may have been written.
Steps until(Steps steps, std::int64_t last) {
  std::erase_if(steps, [&](std::int64_t step) { return step > last; });
  return steps;
}

/// Where the longest name of the run begins that ends this one; nothing if none does.
std::optional<std::size_t> begin_of_name(const Held& held, const std::string& name) {
  for (std::size_t at = 0;; ++at) {
    if (held.is_named(name.substr(at))) return at;
    at = name.find('.', at);
    if (at == std::string::npos) return std::nullopt;
  }
}

Content sorted(const Held& held, const CheckpointFile& file, std::int64_t last) {
  Content content;
  for (const auto& [name, digest] : *file.tensors) {
    if (const auto at = begin_of_name(held, name)) {
      Copy& copy = content.copies[name.substr(0, *at)];
      const Found found = held.named(name.substr(*at), digest);
      const Steps steps = until(found.steps, last);
      const bool is_weight = held.is_weight(name.substr(*at));
      if (is_weight && steps.empty()) copy.is_whole = false;
      if (!steps.empty()) copy.known.push_back({name, steps});
      copy.has_weights = copy.has_weights || (is_weight && !steps.empty());
      if (!steps.empty()) copy.weights.insert(found.names.begin(), found.names.end());
    } else if (const Steps steps = until(held.state(last_part(name), digest), last); !steps.empty()) {
      content.states.push_back({name, steps});
    }
  }
  std::erase_if(content.copies, [](const auto& copy) { return !copy.second.has_weights; });
  return content;
}

/// As few steps as explain all, the one that explains most before the others; the later of two that explain as many.
std::vector<FilePart> parts_of(std::vector<Known> all) {
  std::vector<FilePart> parts;
  while (!all.empty()) {
    std::map<std::int64_t, std::size_t> counts;
    for (const Known& one : all) {
      for (const std::int64_t step : one.steps) ++counts[step];
    }
    const auto most = std::max_element(counts.rbegin(), counts.rend(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    FilePart part{.step = most->first, .tensors = {}};
    std::erase_if(all, [&](const Known& one) {
      const bool is_of_it = std::binary_search(one.steps.begin(), one.steps.end(), part.step);
      if (is_of_it) part.tensors.push_back(one.name);
      return is_of_it;
    });
    parts.push_back(std::move(part));
  }
  std::sort(parts.begin(), parts.end(), [](const FilePart& a, const FilePart& b) { return a.step < b.step; });
  return parts;
}

std::vector<Known> joined(std::vector<Known> some, const std::vector<Known>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

/// The copy of which most tensors are known; of two that have as many, the younger.
const Copy& main_copy(const Content& content) {
  const auto weight_of = [](const Copy& copy) {
    std::int64_t last = 0;
    for (const Known& one : copy.known) last = std::max(last, one.steps.back());
    return std::pair(copy.known.size(), last);
  };
  return std::max_element(content.copies.begin(), content.copies.end(),
                          [&](const auto& a, const auto& b) { return weight_of(a.second) < weight_of(b.second); })
      ->second;
}

/// Whether every part of the whole to which a copy belongs is there as it was after this step.
bool is_whole_after(const Content& content, const Copy& copy, std::int64_t step) {
  const auto is_of_step = [&](const Copy& other) {
    const Steps steps = other.steps();
    return std::binary_search(steps.begin(), steps.end(), step);
  };
  return std::all_of(content.copies.begin(), content.copies.end(), [&](const auto& part) {
    if (copy.overlaps(part.second)) return true;
    return std::any_of(content.copies.begin(), content.copies.end(), [&](const auto& other) {
      return other.second.overlaps(part.second) && is_of_step(other.second);
    });
  });
}

/// A copy, and the parts of its whole of which there are no others.
std::vector<Known> whole_of(const Content& content, const Copy& copy) {
  std::vector<Known> all = copy.known;
  for (const auto& [prefix, part] : content.copies) {
    const auto copies = std::count_if(content.copies.begin(), content.copies.end(),
                                      [&](const auto& other) { return other.second.overlaps(part); });
    if (!copy.overlaps(part) && copies == 1) all = joined(all, part.known);
  }
  return all;
}

std::optional<Moments> moments_in(const Content& content) {
  Moments found;
  if (content.copies.empty()) {
    const std::optional<Steps> steps = shared(content.states);
    if (!steps || steps->empty()) return std::nullopt;
    found.parts = {{.step = steps->back(), .tensors = {}}};
    for (const Known& one : content.states) found.parts[0].tensors.push_back(one.name);
    return found;
  }
  const std::vector<Known>* latest = nullptr;
  std::set<std::int64_t> steps;
  for (const auto& [prefix, copy] : content.copies) {
    const std::vector<Known> all = joined(copy.known, content.states);
    Steps both = *shared(all);
    std::erase_if(both, [&](std::int64_t step) { return !is_whole_after(content, copy, step); });
    if (!copy.is_whole || both.empty()) continue;
    if (latest == nullptr || both.back() > *steps.rbegin()) latest = &copy.known;
    steps.insert(both.back());
  }
  if (latest != nullptr) {
    const std::int64_t step = *steps.rbegin();
    found.parts = {{.step = step, .tensors = {}}};
    for (const Known& one : joined(*latest, content.states)) found.parts[0].tensors.push_back(one.name);
    for (const auto& [prefix, copy] : content.copies) {
      const Steps own = copy.steps();
      if (copy.is_whole && !own.empty() && own.back() != step) found.further.push_back(own.back());
    }
    return found;
  }
  const std::vector<Known> all = joined(whole_of(content, main_copy(content)), content.states);
  if (!shared(all)->empty()) return std::nullopt;  // of some tensors nothing is known
  found.parts = parts_of(all);
  return found;
}

}  // namespace

std::vector<std::optional<Moments>> moments_of(const trace::RunTrace& run, const std::vector<CheckpointFile>& files) {
  std::vector<std::optional<Moments>> moments;
  const Wanted wanted = wanted_of(files);
  std::map<std::int64_t, Held> by_rank;
  for (const CheckpointFile& file : files) {
    moments.emplace_back();
    if (!file.written || !file.tensors || file.rank < 0 || file.rank >= run.world_size()) continue;
    const trace::Trace& rank = run.ranks[static_cast<std::size_t>(file.rank)];
    if (rank.steps.empty()) continue;
    const Held& held = by_rank.try_emplace(file.rank, rank, wanted).first->second;
    moments.back() = moments_in(sorted(held, file, rank.steps.front().step + file.updates));
  }
  return moments;
}

}  // namespace lockstep::compare
