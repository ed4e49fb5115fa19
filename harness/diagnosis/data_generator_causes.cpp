#include <map>
#include <utility>

#include "harness/diagnosis/restart_causes.h"
#include "harness/laws/contents.h"
#include "harness/laws/held.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;

/// A sample that a run gives with one content, and with another one later; -1: there is none.
std::int64_t drawn_sample(const trace::RunTrace& run) {
  std::map<std::pair<std::string, std::int64_t>, std::uint64_t> contents;
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      for (const auto& [input, of_step] : laws::contents_of(step)) {
        for (const laws::Content& content : of_step) {
          const auto [found, is_new] = contents.try_emplace({input, content.id}, content.digest);
          if (!is_new && found->second != content.digest) return content.id;
        }
      }
    }
  }
  return -1;
}

/// A step in which no generator of a rank moves, although samples are taken.
bool draws_nothing_in(const trace::RunTrace& run, std::size_t rank, std::int64_t step) {
  const Held before(run, rank, step - 1), now(run, rank, step);
  return laws::same(before, now, Channel::kRng) && !now.all(Channel::kInput).empty();
}

bool takes_the_same(const Restart& restart, std::int64_t step) {
  for (std::size_t rank = 0; rank < restart.resumed.run->ranks.size(); ++rank) {
    const Held own(*restart.resumed.run, rank, step), straight(*restart.straight.run, rank, step);
    if (!laws::same(own, straight, Channel::kSamples)) return false;
  }
  return true;
}

}  // namespace

std::vector<Suspect> suspects_in_data_generator(const Restart& restart) {
  if (!restart.straight || !restart.first || restart.changes_world()) return {};
  const trace::RunTrace &straight = *restart.straight.run, &resumed = *restart.resumed.run;
  // Workers of a loader draw from generators of their own, whose seed comes from one that is recorded.
  if (laws::seen_of(straight, "loader_workers") != Json(0) || !takes_the_same(restart, *restart.first)) return {};
  std::int64_t still = -1;
  for (const trace::Step& step : straight.ranks[0].steps) {
    if (step.step > 0 && draws_nothing_in(straight, 0, step.step)) still = step.step;
  }
  const std::int64_t sample = drawn_sample(straight);
  if (still < 0 || sample < 0) return {};
  return {
      {"ckpt.data_generator",
       {resumed.run + ", step " + std::to_string(*restart.first) + ", the first after loading: the samples are as in " +
            straight.run + ", their contents are not",
        straight.run + " gives sample " + std::to_string(sample) +
            " other contents from time to time, and no recorded generator moves in step " + std::to_string(still)}}};
}

}  // namespace lockstep::diagnosis
