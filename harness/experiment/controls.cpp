#include "harness/experiment/controls.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::blaming {

const std::vector<NamedControl>& controls() {
  const auto train = [](const char* name, Json patch) { return Control{name, {{"train", std::move(patch)}}}; };
  const auto launch = [](const char* name, Json patch) { return Control{name, {{"launch", std::move(patch)}}}; };
  const auto ranks = [](const char* name, int count) { return Control{name, {{"world_size", count}}}; };
  constexpr auto kAnother = NamedControl::Kind::kAnotherTraining;
  static const std::vector<NamedControl> kControls = {
      {train("threads", {{"determinism", {{"threads", 1}}}}), "one thread per rank"},
      {train("isa", {{"determinism", {{"cpu", "portable"}}}}), "kernels for AVX2 at most"},
      {train("deterministic", {{"determinism", {{"algorithms", "deterministic"}}}}),
       "deterministic algorithms; fresh memory is filled"},
      {train("buckets", {{"ddp", {{"bucket_mb", 4096}}}}), "all gradients in one bucket"},
      {train("order", {{"ddp", {{"reduction", "rank_order"}}}}), "gradients added in the order of the ranks"},
      {ranks("two_ranks", 2), "two ranks: sums have only one order", kAnother},
      {ranks("one_rank", 1), "one rank: nothing is reduced", kAnother},
      {launch("delays", {{"arrival_delay_ms", {300}}, {"step_delay_ms", {20}}}),
       "rank 0 comes late, at the start and to every reduction"},
      {experiment::filled(), "another pattern in fresh memory"},
      {launch("place", {{"directory", "elsewhere"}, {"environment_order", "reversed"}}),
       "another folder, another order of the environment"},
      {{"same_state", Json::object()},
       "only the step of the difference, from the left side's state",
       NamedControl::Kind::kSameState},
      {experiment::in_float64(), "everything in float64", kAnother},
      {train("exact", {{"exact", true}}), "inputs, weights and gradients on grids where no sum rounds", kAnother}};
  return kControls;
}

std::vector<NamedControl> chosen_controls(const std::string& list) {
  std::vector<std::string> names;
  for (const NamedControl& one : controls()) names.push_back(one.name());
  std::set<std::string> wanted, unwanted;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const bool without = word.starts_with('-');
    if (without || word.starts_with('+')) word.erase(0, 1);
    if (std::find(names.begin(), names.end(), word) == names.end())
      throw InputError({.what = "unknown control '" + word + "'",
                        .where = "--vary " + list,
                        .expected = "some of: " + join(names, ", "),
                        .next = suggest(word, names)});
    (without ? unwanted : wanted).insert(word);
  }
  std::vector<NamedControl> chosen;
  for (const NamedControl& one : controls()) {
    if ((wanted.empty() || wanted.contains(one.name())) && !unwanted.contains(one.name())) chosen.push_back(one);
  }
  if (chosen.empty())
    throw InputError({.what = "no control is left", .where = "--vary " + list, .expected = "one or more"});
  return chosen;
}

}  // namespace lockstep::blaming
