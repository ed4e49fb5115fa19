#include "harness/laws/contents.h"

#include <algorithm>
#include <set>

#include "harness/recipe/sampler_rule.h"

namespace lockstep::laws {

using trace::Channel;

const trace::Record* samples_in(const trace::Step& step) {
  const trace::Record* ids = step.find(Channel::kSamples, "ids");
  return ids != nullptr ? ids : step.find(Channel::kSamples, "items");
}

std::map<std::string, std::vector<Content>> contents_of(const trace::Step& step, char separator) {
  std::map<std::string, std::vector<Content>> contents;
  const trace::Record* ids = step.find(Channel::kSamples, "ids");
  if (ids == nullptr) return contents;
  for (const trace::Record& record : step.records) {
    if (record.channel != Channel::kInput) continue;
    std::vector<Content>& of_input = contents[record.name.substr(0, record.name.find(separator))];
    for (const std::uint64_t row : record.rows) {
      const std::size_t next = of_input.size();
      of_input.push_back({next < ids->integers.size() ? ids->integers[next] : -1, row, record.dtype});
    }
  }
  std::erase_if(contents, [&](const auto& input) { return input.second.size() != ids->integers.size(); });
  return contents;
}

namespace {

/// Digests of samples by their ids, by input.
using Contents = std::map<std::string, std::map<std::int64_t, std::uint64_t>>;

/// First contents of each sample in the steps of a rank of a program.
Contents contents_in(const trace::Trace& rank, const StepNumbers& steps) {
  Contents contents;
  for (const std::int64_t number : steps) {
    const trace::Step* const step = rank.find(number);
    if (step == nullptr) continue;
    for (const auto& [input, samples] : contents_of(*step, kMicroBatchOfProgram)) {
      for (const Content& content : samples) contents[input].emplace(content.id, content.digest);
    }
  }
  return contents;
}

}  // namespace

StepNumbers steps_of(const trace::Trace& rank) {
  StepNumbers steps;
  for (const trace::Step& step : rank.steps) steps.push_back(step.step);
  return steps;
}

Common share_their_ids(const trace::RunTrace& run, std::size_t a, const StepNumbers& steps_of_a, std::size_t b,
                       const StepNumbers& steps_of_b) {
  const auto of_a = contents_in(run.ranks[a], steps_of_a), of_b = contents_in(run.ranks[b], steps_of_b);
  Common found = Common::kUntold;
  for (const auto& [input, samples] : of_a) {
    const auto other = of_b.find(input);
    if (other == of_b.end()) continue;
    std::size_t both = 0, same = 0;
    std::set<std::uint64_t> different;
    for (const auto& [id, digest] : samples) {
      const auto its = other->second.find(id);
      if (its == other->second.end()) continue;
      ++both;
      same += its->second == digest;
      different.insert(digest);
    }
    if (both < recipe::kFewInOrder || 2 * different.size() <= both) continue;
    if (2 * same > both) return Common::kShared;
    found = Common::kOwn;
  }
  return found;
}

bool have_ids_of_their_own(const trace::RunTrace& run) {
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    if (share_their_ids(run, 0, steps_of(run.ranks[0]), rank, steps_of(run.ranks[rank])) == Common::kOwn) return true;
  }
  return false;
}

}  // namespace lockstep::laws
