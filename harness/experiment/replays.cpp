#include "harness/experiment/replays.h"

#include <algorithm>
#include <vector>

#include "harness/experiment/locate.h"
#include "harness/experiment/repeats.h"

namespace lockstep::experiment {
namespace {

using compare::Divergence;

/// The runs whose records the finding is about; of a check up to rounding all of them: what float64 settles for the
/// trainings must hold for every run.
std::vector<const trace::RunTrace*> runs_of(const Case& one, const Runs& before) {
  std::vector<const trace::RunTrace*> runs;
  if (one.is_up_to_rounding()) {
    for (const std::string& variant : one.sides()) {
      for (const trace::RunTrace* run : before.all_of(variant)) runs.push_back(run);
    }
  } else if (one.differs()) {
    for (const Side& side : {before.left(one.at()), before.right(one.at())}) {
      const trace::RunTrace* run = side.run;
      if (run != nullptr && std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
    }
  }
  return runs;
}

void call_nondeterministic(Divergence& at) {
  if (at.class_ == scenario::Class::kRounding) at.deny_rounding();
  at.class_ = scenario::Class::kNondeterminism;
}

void mark_random(Case& one) {
  one.varies = true;
  one.at().again = compare::Again::kEachTimeOtherwise;
  call_nondeterministic(one.at());
}

}  // namespace

void call_random(Case& one, const Divergence& where, const std::string& variant) {
  if (!one.unstable) {
    one.unstable = where;
    one.unstable_variant = variant;
  }
  mark_random(one);
}

void judge_replay(Case& one, const Control& control, const Runs& before, const Runs& again) {
  const std::vector<const trace::RunTrace*> runs = runs_of(one, before);
  for (const trace::RunTrace* run : runs) {
    const trace::RunTrace* second = again.side(run->run, 0, /*any_repeat=*/true).run;
    if (second == nullptr) {
      one.lost = true;
      one.note(control, run->run + " did not finish when replayed");
      continue;
    }
    const auto apart = part_bitwise(*run, *second);
    if (apart && !one.unstable) {
      one.unstable = apart;
      one.unstable_variant = variant_of(run->run);
    }
    one.note(control, apart ? run->run + " does not reproduce: first difference at " + apart->place_and_rank()
                            : run->run + " reproduces bit for bit");
  }
  if (!one.differs() || runs.empty() || (one.lost && !one.unstable)) return;
  one.at().again = one.unstable ? compare::Again::kOnceOtherwise : compare::Again::kSame;
  if (one.unstable) call_nondeterministic(one.at());
}

void judge_often(Case& one, const Control& control, const Runs& before, const Runs& often) {
  bool have_all_finished = true;
  for (const trace::RunTrace* run : runs_of(one, before)) {
    const std::string variant = variant_of(run->run);
    if (one.unstable && variant != one.unstable_variant) continue;
    const std::vector<const trace::RunTrace*> again = often.all_of(variant);
    if (again.empty()) {
      one.note(control, variant + " did not finish when replayed");
      have_all_finished = false;
      continue;
    }
    const auto apart = not_alike(one.unstable ? *again[0] : *run, again);
    if (!apart) continue;
    one.note(control, run->run + " does not always reproduce: first difference at " + apart->place_and_rank());
    call_random(one, *apart, variant);
    one.at().element.reset();  // of two sides that are random
    one.at().operator_.reset();
    return;
  }
  one.came_out_again = have_all_finished && !one.unstable;
}

void judge_pair(Case& one, const Control& control, const Runs& twice) {
  const std::string variant = one.unstable ? one.unstable_variant : variant_of(one.at().left.run);
  const Side first = twice.side(variant + "/0", one.at().rank), second = twice.side(variant + "/1", one.at().rank);
  if (first.run == nullptr || second.run == nullptr)
    return one.note(control, variant + " did not finish when replayed");
  const auto apart = part_bitwise(*first.run, *second.run);
  if (!apart && one.varies) return;
  if (!apart) return one.note(control, variant + ": two more runs matched: rare, or a one-off");
  mark_random(one);
  one.note(control, variant + " changes from run to run: first difference at " + apart->place_and_rank());
  Divergence here = *apart;
  const auto at_rank = static_cast<std::size_t>(here.rank);
  locate(here, {.run = first.run, .rank = at_rank}, {.run = second.run, .rank = at_rank}, Looked::kFromTheStart);
  if (here.element) one.note(control, "element " + here.element->text());
  if (!here.operator_) return;
  one.at().operator_ = here.operator_;
  one.at().suspects.clear();  // what is known of the operator may say more
}

}  // namespace lockstep::experiment
