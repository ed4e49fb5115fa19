#include <map>
#include <tuple>
#include <utility>

#include "harness/laws/contents.h"
#include "harness/laws/law.h"

namespace lockstep::laws {
namespace {

/// Where a sample was first taken.
struct Seen {
  Content content;
  std::int64_t step = 0;
  std::int64_t rank = 0;
};

}  // namespace

std::string no_content_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  return promises.train.augmentation() != recipe::Augmentation::kNone ? "the recipe augments its samples" : "";
}

Outcome judge_content(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("whether this program takes its samples as they are is not promised");
  Outcome outcome;
  const bool of_ranks = promises.train.data.options.value("per_rank", false);  // each numbers data of its own
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Seen> seen;    // by input, sample and whose it is
  for (const trace::Step& step : run.ranks[0].steps) {
    for (const trace::Trace& rank : run.ranks) {
      const trace::Step* taken = rank.find(step.step);
      if (taken == nullptr) continue;
      for (const auto& [input, contents] : contents_of(*taken)) {
        for (const Content& content : contents) {
          const auto [known, is_new] =
              seen.try_emplace({input, content.id, of_ranks ? rank.rank : 0}, Seen{content, step.step, rank.rank});
          ++outcome.judged;
          if (is_new || known->second.content.digest == content.digest) continue;
          const std::string sample = "sample " + std::to_string(content.id);
          const Seen& first = known->second;
          outcome.broken =
              Breach{.at = {step.step, trace::Channel::kInput, input, rank.rank},
                     .expected = sample + " as at step " + std::to_string(first.step) + " on rank " +
                                 std::to_string(first.rank),
                     .actual = sample + " has another content",
                     .cause = "data.content",
                     .evidence = "the recipe augments nothing, and " + sample + " differs in " + input + " from step " +
                                 std::to_string(first.step) + " to step " + std::to_string(step.step)};
          return outcome;
        }
      }
    }
  }
  if (outcome.judged == 0) return cannot_tell("no input is recorded with a digest of each sample");
  return outcome;
}

}  // namespace lockstep::laws
