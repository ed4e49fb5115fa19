#include "harness/plan/mutations.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/problems.h"
#include "harness/base/text.h"

namespace lockstep::plan {
namespace {

using scenario::CheckSpec;
using scenario::Mutation;
using scenario::Practice;
using scenario::Scenario;
using scenario::Variant;

/// Stands between the name of a variant and the number of its mutation; no variant's own name has it.
constexpr char kMutation = '~';

/// Whether a check judges each run by itself, so that unchanged variants beside the changed one say nothing new.
bool is_of_each(const CheckSpec& check) { return !check.traits().between_runs() && !check.expect; }

bool repeats(const CheckSpec& check) { return check.traits().sides == scenario::Sides::kRepeats; }

/// Names of a program's other folders: "{folder:half}" becomes "{folder:half~1}".
void rename_folder(Json& part, const std::string& from, const std::string& to) {
  if (part.is_structured()) {
    for (Json& item : part) rename_folder(item, from, to);
  } else if (part.is_string()) {
    const std::string old = "{" + scenario::folder_of(from) + "}", fresh = "{" + scenario::folder_of(to) + "}";
    std::string text = part.get<std::string>();
    for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + fresh.size()))
      text.replace(at, old.size(), fresh);
    part = text;
  }
}

/// Adds the mutations of one scenario to it.
class Mutating {
 public:
  explicit Mutating(const Scenario& scenario) : original_(scenario), mutated_{.scenario = scenario} {
    mutated_.own_checks = scenario.checks.size();
    for (const CheckSpec& check : scenario.checks) mutated_.check_names.push_back(check.name);
  }

  void add(std::size_t practice, std::size_t mutation) {
    const Practice& of = original_.practices[practice];
    const Mutation& what = of.mutations[mutation];
    const bool repeated = std::any_of(of.proven_by.begin(), of.proven_by.end(),
                                      [&](std::size_t check) { return repeats(original_.checks[check]); });
    std::map<std::string, std::string> changed;  // names of variants, before and after
    for (const Variant& variant : original_.variants) change(variant, what, repeated, changed);
    Trial trial{.practice = practice, .mutation = mutation};
    for (const std::size_t check : of.proven_by) {
      if (auto spec = changed_check(original_.checks[check], changed)) {
        trial.checks.push_back(mutated_.scenario.checks.size());
        mutated_.scenario.checks.push_back(std::move(*spec));
      }
    }
    trial.variants = seen_by(trial.checks);
    require_effect(of, what, trial, !changed.empty());
    mutated_.trials.push_back(std::move(trial));
  }

  /// Leaves the variants that some check sees, and of the own checks, in a part, those of practices that have a trial.
  Mutated take(const Part& part) && {
    if (part.of > 1) leave_own_checks_of_trials();
    keep_what_is_needed(mutated_.scenario);
    return std::move(mutated_);
  }

 private:
  void leave_own_checks_of_trials() {
    std::set<std::size_t> kept;
    for (const Trial& trial : mutated_.trials) {
      const Practice& practice = original_.practices[trial.practice];
      kept.insert(practice.proven_by.begin(), practice.proven_by.end());
    }
    std::vector<CheckSpec>& checks = mutated_.scenario.checks;
    std::vector<CheckSpec> left;
    for (const std::size_t index : kept) left.push_back(checks[index]);
    const std::size_t fewer = mutated_.own_checks - left.size();
    left.insert(left.end(), checks.begin() + static_cast<std::ptrdiff_t>(mutated_.own_checks), checks.end());
    checks = std::move(left);
    mutated_.own_checks -= fewer;
    for (Trial& trial : mutated_.trials) {
      for (std::size_t& check : trial.checks) check -= fewer;
    }
  }

  /// Changed variants that these checks judge, or that those load from.
  std::vector<std::string> seen_by(const std::vector<std::size_t>& checks) const {
    std::set<std::string> seen;
    std::vector<std::string> open;
    for (const std::size_t check : checks) {
      const std::vector<std::string>& of = mutated_.scenario.checks[check].variants;
      open.insert(open.end(), of.begin(), of.end());
    }
    while (!open.empty()) {
      const Variant& variant = mutated_.scenario.variant(open.back());
      open.pop_back();
      if (variant.mutation_of.empty() || !seen.insert(variant.name).second) continue;
      for (const std::string& source : scenario::sources_of(variant)) open.push_back(source);
    }
    return {seen.begin(), seen.end()};
  }

  /// Whether the mutation changes this variant, by itself or by what it loads; then it has another name in `changed`.
  bool change(const Variant& variant, const Mutation& what, bool repeated,
              std::map<std::string, std::string>& changed) {
    if (changed.contains(variant.name)) return true;
    const auto own = what.change.find(variant.name);
    Variant next = own == what.change.end() ? variant : scenario::mutated(variant, own->second, place_of(what));
    for (const std::string& source : scenario::sources_of(next)) {
      if (this->change(original_.variant(source), what, repeated, changed))
        take_source(next, source, changed.at(source));
    }
    const bool same = next.world_size == variant.world_size && next.train_json == variant.train_json &&
                      next.program_json == variant.program_json && next.promises_json == variant.promises_json &&
                      next.launch_json == variant.launch_json;
    if (same) return false;
    const Json document = {next.name,          next.world_size,  next.train_json, next.program_json,
                           next.promises_json, next.launch_json, repeated};
    const auto [known, is_new] = names_.try_emplace(document.dump(), "");
    if (is_new) {
      next.name += kMutation + std::to_string(names_.size());
      known->second = next.name;
      next.repeats = repeated ? original_.repeats : 1;
      mutated_.scenario.variants.push_back(next);
    }
    changed[variant.name] = known->second;
    return true;
  }

  /// Lets a variant load from the mutation of what it loaded from.
  void take_source(Variant& variant, const std::string& source, const std::string& mutation) const {
    Json document = Json::object();
    if (variant.program) {
      document["program"] = variant.program_json;
      rename_folder(document, source, mutation);
    } else {
      Json& checkpoint = document["train"]["checkpoint"];
      const recipe::CheckpointSpec& of = variant.train.checkpoint;
      if (of.load && of.load->from == source) checkpoint["load"]["from"] = mutation;
      if (of.follow == source) checkpoint["follow"] = mutation;
    }
    variant = scenario::mutated(variant, document, original_.file.string());
  }

  /// The check between the changed variants; nothing where it sees none of them.
  static std::optional<CheckSpec> changed_check(CheckSpec check, const std::map<std::string, std::string>& changed) {
    bool sees = false;
    const auto rename = [&](std::string& name) {
      const auto found = changed.find(name);
      if (found == changed.end()) return;
      name = found->second;
      sees = true;
    };
    if (is_of_each(check))
      std::erase_if(check.variants, [&](const std::string& name) { return !changed.contains(name); });
    for (std::string& name : check.variants) rename(name);
    rename(check.straight);
    rename(check.interrupted);
    return sees ? std::optional(std::move(check)) : std::nullopt;
  }

  std::string place_of(const Mutation& what) const {
    return original_.file.string() + ": mutation '" + what.name + "'";
  }

  void require_effect(const Practice& practice, const Mutation& what, const Trial& trial, bool changes) const {
    if (!trial.checks.empty()) return;
    std::vector<std::string> variants;
    for (const std::size_t check : practice.proven_by) {
      const std::vector<std::string>& of = original_.checks[check].variants;
      variants.insert(variants.end(), of.begin(), of.end());
    }
    throw InputError({.what = changes ? "a mutation changes nothing that a check of its practice sees"
                                      : "a mutation changes nothing",
                      .where = place_of(what) + " of '" + practice.name + "'",
                      .expected = "another value in one of the variants " + join(variants, ", "),
                      .actual = changes ? "other variants" : "the values that are there"});
  }

  const Scenario& original_;
  Mutated mutated_;
  std::map<std::string, std::string> names_;  ///< of changed variants, by what they are
};

}  // namespace

std::vector<Mutated> mutate(const std::vector<Scenario>& scenarios, const Part& part) {
  std::vector<Mutated> result;
  Problems problems;
  std::size_t next = 0, total = 0;
  for (const Scenario& scenario : scenarios) {
    for (const Practice& practice : scenario.practices) total += practice.mutations.size();
  }
  for (const Scenario& scenario : scenarios) {
    Mutating mutating(scenario);
    bool any = false;
    for (std::size_t i = 0; i < scenario.practices.size(); ++i) {
      for (std::size_t k = 0; k < scenario.practices[i].mutations.size(); ++k) {
        if (next++ * part.of / std::max<std::size_t>(total, 1) != part.number - 1) continue;  // neighbours share runs
        any = true;
        problems.collect([&] { mutating.add(i, k); });
      }
    }
    if (any) result.push_back(std::move(mutating).take(part));
  }
  problems.throw_if_any();
  if (result.empty())
    throw InputError({.what = next == 0 ? "no scenario has a practice with mutations" : "this part has no mutations",
                      .where = next == 0 ? "--mutations" : "--part",
                      .expected = next == 0 ? "\"practices\" in one of the scenarios"
                                            : "at most as many parts as mutations: " + std::to_string(next),
                      .actual = next == 0 ? "none" : std::to_string(part.number) + "/" + std::to_string(part.of)});
  return result;
}

}  // namespace lockstep::plan
