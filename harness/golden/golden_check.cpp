#include "harness/golden/golden_check.h"

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/checks/across_layouts.h"
#include "harness/checks/check.h"
#include "harness/compare/environments.h"
#include "harness/compare/rounding.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/golden/cells.h"
#include "harness/golden/processors.h"
#include "harness/golden/recipe_changes.h"
#include "harness/golden/root.h"
#include "harness/golden/store.h"
#include "harness/trace/inputs.h"
#include "harness/trace/reader.h"

namespace lockstep::golden {
namespace {

using checks::CheckInput;
using checks::CheckResult;
using Status = checks::CheckResult::Status;

std::string accept_command(const CheckInput& input) {
  const std::vector<std::string> overrides = scenario::overrides_of_recipe(input.scenario);
  scenario::Scenario as_in_file = input.scenario;
  if (!overrides.empty()) as_in_file.overrides.clear();
  return (overrides.empty() ? "" : "write " + join(overrides, ", ") + " into the file, then: ") +
         "lockstep golden accept " + arguments_of(as_in_file, input.golden_root) + " --reason '…'";
}

/// The variant that a golden was accepted of, as the scenario has it now.
const scenario::Variant& accepted_variant(const CheckInput& input, const std::string& variant) {
  return input.scenario.variant(input.spec.of.empty() ? variant : input.spec.of);
}

/// Files that the command names and that had another content when the golden was accepted. A golden of another variant
/// may have files of its own.
std::vector<std::string> changed_inputs(const Entry& golden, const CheckInput& input, const trace::RunTrace& run) {
  Json then = trace::inputs_in(golden.run.ranks[0].header, run.written);
  Json now = trace::inputs_in(run.ranks[0].header, run.written);
  if (!input.spec.of.empty()) {
    for (const auto& [one, other] : {std::pair(&then, now), std::pair(&now, then)}) {
      for (const std::string& file : lockstep::keys_of(*one)) {
        if (!other.contains(file)) one->erase(file);
      }
    }
  }
  return keys_that_differ(then, now);
}

/// Channels that a run and its golden are compared in. Those who share a model in another way exchange other tensors.
std::vector<trace::Channel> compared_channels(const CheckInput& input, const trace::RunTrace& run) {
  std::vector<trace::Channel> channels = checks::channels_of(input, run);
  if (!input.spec.of.empty() && input.spec.channels.empty()) std::erase(channels, trace::Channel::kCollective);
  return channels;
}

std::string changes_since(const Entry& golden, const CheckInput& input, const std::string& variant,
                          const trace::RunTrace& run) {
  std::vector<std::string> changes = changed_keys(golden, accepted_variant(input, variant));
  for (const std::string& file : changed_inputs(golden, input, run)) changes.push_back("the content of " + file);
  return changes.empty() ? "data, world size, or the training that it resumes" : join(changes, ", ");
}

/// The variant whose golden a run is compared with: a mutation has none of its own.
const std::string& accepted_as(const CheckInput& input, const std::string& variant) {
  if (!input.spec.of.empty()) return input.spec.of;
  const std::string& original = input.scenario.variant(variant).mutation_of;
  return original.empty() ? variant : original;
}

std::filesystem::path path_of(const CheckInput& input, const std::string& variant) {
  return golden_file(root_of(input.scenario.file, input.golden_root).folder, input.scenario.name,
                     accepted_as(input, variant));
}

/// Whether the golden is of this scenario and variant at all.
std::optional<CheckResult> stranger(const Golden& golden, const Entry& entry, const CheckInput& input,
                                    const std::string& accepted, const trace::RunTrace& run) {
  const auto describe = [](const std::string& scenario, const std::string& name, std::int64_t ranks) {
    return "'" + scenario + "', variant '" + name + "', " + std::to_string(ranks) + " ranks";
  };
  const std::string expected = describe(input.scenario.name, accepted, run.world_size());
  const std::string actual = describe(golden.scenario, golden.variant, entry.run.world_size());
  if (expected == actual) return std::nullopt;
  return CheckResult{.status = Status::kBaseline,
                     .why = "the golden in " + entry.run.ranks[0].origin + " belongs to another training: expected " +
                            expected + ", found " + actual,
                     .next = accept_command(input)};
}

bool holds(const trace::RunTrace& run, trace::Channel channel) {
  const std::vector<trace::Step>& steps = run.ranks[0].steps;
  return std::any_of(steps.begin(), steps.end(), [&](const trace::Step& step) {
    return std::any_of(step.records.begin(), step.records.end(),
                       [&](const trace::Record& record) { return record.channel == channel; });
  });
}

/// Why golden and run hold other records although the training may be the same: what is recorded is no part of it.
std::string recorded_otherwise(const Entry& golden, const CheckInput& input, const std::string& variant,
                               const trace::RunTrace& run) {
  const recipe::RecordSpec& now = input.scenario.variant(variant).train.record;
  const Json every = golden.recipe.value("/record/every"_json_pointer, Json());
  if (every.is_number_integer() && every != now.every)
    return "the golden was recorded with train.record.every = " + every.dump() + ", the run with " +
           std::to_string(now.every);
  for (const trace::Channel channel : compared_channels(input, run)) {
    if (!golden.channels.contains(channel) && holds(run, channel))
      return "the run records the channel '" + std::string(name_of(channel)) + "', which the golden does not hold";
  }
  for (const trace::Channel channel : golden.channels) {
    if (!now.holds(channel) && holds(golden.run, channel))
      return "the golden holds the channel '" + std::string(name_of(channel)) + "', which the run does not record";
  }
  return "";
}

/// The same sources, training the same elsewhere: nothing else can be why. Other sources may have any reason.
void blame_environment(const trace::RunTrace& golden, const trace::RunTrace& run, compare::Divergence& divergence) {
  std::vector<compare::Suspect> suspects = compare::suspects_between({&golden, 0}, {&run, 0});
  const auto build = [](const trace::RunTrace& of) {
    return of.ranks[0].header.value("/environment/build"_json_pointer, Json());
  };
  if (build(golden) == build(run)) {
    divergence.suspects = std::move(suspects);
  } else if (!suspects.empty()) {
    divergence.cause += "; lockstep was built from different sources then: " + join(suspects[0].evidence, ", ");
  }
}

/// Data other than those that the golden was made of: no later than the divergence, the same samples are other inputs,
/// or there are more or fewer of them.
std::vector<compare::Suspect> suspects_in_data(const trace::RunTrace& golden, const trace::RunTrace& run,
                                               const scenario::Promises& promises, const compare::Divergence& at) {
  const auto samples = [](const trace::RunTrace& of) { return of.ranks[0].header.value("samples", std::int64_t{0}); };
  if (samples(golden) != samples(run) && at.channel == trace::Channel::kSamples)
    return {{"data.content",
             {"the golden's data have " + std::to_string(samples(golden)) + " samples, the data of " + run.run +
              " have " + std::to_string(samples(run))}}};
  const auto first =
      compare::compare_runs(golden, run, {trace::Channel::kSamples, trace::Channel::kInput}, compare::bitwise).first;
  const bool comes_later = first && std::pair(first->step, first->channel) > std::pair(at.step, at.channel);
  if (!first || first->channel != trace::Channel::kInput || comes_later) return {};
  const diagnosis::Question question{.that = scenario::CheckKind::kGolden,
                                     .traces = {{golden.run, {&golden}}, {run.run, {&run}}},
                                     .promises = {{golden.run, &promises}, {run.run, &promises}}};
  return diagnosis::suspects_in_data(diagnosis::Scene(question, *first));
}

/// Whether a value of a recipe only decides in which order or precision it is computed.
bool is_of_order(const scenario::Change& change) {
  return change.path().starts_with("train.determinism.") || change.path().starts_with("train.ddp.reduction");
}

/// `drifts`: losses and norms stay within the bound of rounding.
std::vector<compare::Suspect> suspects_in_recipe(const Entry& golden, const CheckInput& input,
                                                 const std::string& variant, bool drifts) {
  const std::vector<std::string> texts = changed_keys(golden, accepted_variant(input, variant));
  if (texts.empty()) return {};
  const std::vector<scenario::Change> changes = changes_of_recipe(golden, accepted_variant(input, variant));
  const bool are_of_order = std::all_of(changes.begin(), changes.end(), [&](const scenario::Change& change) {
    return is_of_order(change) || is_left_out_of_digest(change.path(), accepted_variant(input, variant));
  });
  return {{drifts && are_of_order ? "recipe.drift" : "recipe.changed", texts}};
}

/// Files that the command names: nothing says what in them decides.
std::vector<compare::Suspect> suspects_in_files(const Entry& golden, const CheckInput& input,
                                                const trace::RunTrace& run, bool drifts) {
  std::vector<std::string> texts;
  for (const std::string& file : changed_inputs(golden, input, run)) texts.push_back("the content of " + file);
  if (texts.empty()) return {};
  return {{drifts ? "recipe.drift" : "recipe.changed", texts}};
}

/// How far a run that differs from its golden has drifted, if all that rounds stays within the bound of rounding, and
/// nothing else differs. Empty: it does not. A golden holds norms and no elements, so that this is no proof.
std::string drift_of(const Entry& golden, const trace::RunTrace& run, const std::vector<trace::Channel>& channels) {
  const compare::RoundingBound bound = compare::RoundingBound::of_norms(golden.run, run);
  const compare::Comparison comparison = compare::compare_runs(golden.run, run, channels, compare::within(bound));
  if (comparison.first || comparison.compared == 0 || comparison.hidden) return "";
  return shift_of(golden.run, run);
}

/// The digest of a training covers its recipe, its data, and what it loads. If the recipe is the same and nothing is
/// loaded, another digest means other data.
std::vector<compare::Suspect> suspects_by_digest(const CheckInput& input, const std::string& variant) {
  const scenario::Variant& of = accepted_variant(input, variant);
  if (of.train.checkpoint.load || !scenario::sources_of(of).empty()) return {};
  return {{"data.content", {"the recipe equals the golden's, but the digest of recipe and data differs"}}};
}

/// Whether the norm of a tensor was added up in another order, where one side has it in parts.
bool is_rounded_otherwise(const trace::Record& accepted, const trace::Record& actual) {
  constexpr double kLastKeptDigit = 1e-7;
  return accepted.is_joined && std::fabs(*accepted.norm - *actual.norm) <= kLastKeptDigit * *accepted.norm;
}

/// Whether a golden says of equal bits what a run does not find. Either may lack what only explains.
bool contradicts(const trace::Record& accepted, const trace::Record& actual) {
  trace::Record both = accepted.is_joined ? as_kept(actual) : actual;
  if (!accepted.norm || !actual.norm || is_rounded_otherwise(accepted, actual)) both.norm = accepted.norm;
  if (accepted.integers.empty() || actual.integers.empty()) both.integers = accepted.integers;
  if (accepted.text.empty() || actual.text.empty()) both.text = accepted.text;
  if (!accepted.number || !actual.number) both.number = accepted.number;
  return cell_of(both) != cell_of(accepted);
}

/// The relation "bitwise equal". It notes the first record of the golden that has the run's digest, and of which the
/// golden says something that is not true: it was edited.
compare::Relation bitwise_and_true(std::string& untruth) {
  return [&untruth](const trace::Record& accepted, const trace::Record& actual, std::int64_t step, std::int64_t rank) {
    auto difference = compare::bitwise(accepted, actual, step, rank);
    if (!difference && untruth.empty() && contradicts(accepted, actual))
      untruth = "step " + std::to_string(step) + ", " + std::string(name_of(accepted.channel)) + " " + accepted.name +
                " has the digest of the run, but is '" + cell_of(accepted) + "' where the run has '" + cell_of(actual) +
                "'";
    return difference;
  };
}

/// A value of the golden's recipe that is not the training's, though the digest says that nothing was changed since.
std::string untruth_in_recipe(const Entry& golden, const CheckInput& input, const std::string& variant) {
  for (const scenario::Change& change : changes_of_recipe(golden, accepted_variant(input, variant))) {
    if (!is_left_out_of_digest(change.path(), accepted_variant(input, variant)))
      return "its recipe is not the one of its train_digest: " + change.text();
  }
  return "";
}

/// An edit of a golden whose digests are those of the run; empty: none is seen. `untruth`: about its records.
std::string contradiction_in(const Entry& golden, const CheckInput& input, const std::string& variant,
                             const trace::RunTrace& run, const std::string& untruth) {
  const auto value_of = [](const trace::RunTrace& of, const char* key) {
    return of.ranks[0].header.value(key, Json());
  };
  // A control run has another recipe than the training that it stands for.
  const bool is_control = value_of(run, "train_digest") != value_of(golden.run, "train_digest");
  const std::string in_recipe = is_control ? "" : untruth_in_recipe(golden, input, variant);
  if (!in_recipe.empty() || !untruth.empty()) return in_recipe.empty() ? untruth : in_recipe;
  const bool same_size = value_of(golden.run, "samples") == value_of(run, "samples");
  return same_size ? "" : "its number of samples is not that of the run";
}

/// Explains a divergence from a golden by what changed since it was accepted.
void explain_change(const Entry& golden, const CheckInput& input, const std::string& variant,
                    const trace::RunTrace& run, bool stale, compare::Divergence& divergence) {
  const std::string drift = drift_of(golden, run, compared_channels(input, run));
  if (stale)
    divergence.cause +=
        "; the training changed since the golden was accepted: " + changes_since(golden, input, variant, run);
  if (!stale) blame_environment(golden.run, run, divergence);
  std::vector<compare::Suspect>& suspects = divergence.suspects;
  if (suspects.empty() && stale) suspects = suspects_in_recipe(golden, input, variant, !drift.empty());
  if (suspects.empty()) suspects = suspects_in_data(golden.run, run, input.scenario.variant(variant), divergence);
  if (suspects.empty() && stale) suspects = suspects_in_files(golden, input, run, !drift.empty());
  if (suspects.empty() && stale) suspects = suspects_by_digest(input, variant);
  if (!drift.empty())
    divergence.cause += "; drift: losses and norms stay within the bound of rounding (" + drift +
                        "). A golden holds no elements, so that this is no proof";
}

/// The entry that a run without one of its own is the most like: of the same class, of the same kind, else any.
const Entry& nearest_in(const Golden& golden, const std::string& key) {
  for (const std::string& kind : {class_of(key), key.substr(0, key.find('-') + 1)}) {
    const auto found = std::find_if(golden.entries.begin(), golden.entries.end(),
                                    [&](const Entry& entry) { return !kind.empty() && entry.key.starts_with(kind); });
    if (found != golden.entries.end()) return *found;
  }
  return golden.entries.front();
}

/// A golden without an entry for the processors of a run: the nearest one is compared for people to read.
CheckResult no_entry(const Golden& file, const std::filesystem::path& path, const CheckInput& input,
                     const trace::RunTrace& run) {
  const std::vector<std::string> own = keys_of(run);
  std::vector<std::string> keys;
  for (const Entry& entry : file.entries) keys.push_back(entry.key);
  const Entry& nearest = nearest_in(file, own.back());
  const compare::Comparison comparison =
      compare::compare_runs(nearest.run, run, compared_channels(input, run), compare::bitwise);
  const std::string is = comparison.first           ? "differs first at " + comparison.first->place_and_rank()
                         : comparison.compared == 0 ? "has nothing to compare with this run"
                                                    : "has the bits of this run";
  return {.status = Status::kBaseline,
          .why = "the golden " + path.string() + " has no entry for the processors '" + join(own, "' or '") +
                 "', only for: " + join(keys, ", ") + "; the one of '" + nearest.key + "' " + is,
          .next = accept_command(input)};
}

/// A variant without a golden.
CheckResult no_golden(const std::filesystem::path& path, const Root& root, const CheckInput& input,
                      const std::string& accepted) {
  if (has_old_format(root.folder, input.scenario.name, accepted))
    return {.status = Status::kBaseline,
            .why = "the golden of '" + accepted + "' has the format of an older lockstep",
            .next = "lockstep golden migrate " + shell_quoted(root.folder.string())};
  return {.status = Status::kBaseline,
          .why = "there is no golden " + path.string() + " (" + root.reason + ")",
          .next = accept_command(input)};
}

/// Every repeat of a variant against its golden, which is added to `goldens`.
void judge_variant(const CheckInput& input, const std::string& variant, CheckResult& total,
                   std::map<std::string, std::string>& goldens) {
  const std::filesystem::path path = path_of(input, variant);
  const auto golden = read_golden(path);
  if (!golden) {
    combine(total,
            no_golden(path, root_of(input.scenario.file, input.golden_root), input, accepted_as(input, variant)));
    return;
  }
  goldens[path.string()] = golden->sha256;
  for (const trace::RunTrace* run : input.of(variant)) {
    const Entry* const entry = entry_for(*golden, *run);
    combine(total, entry == nullptr ? no_entry(*golden, path, input, *run)
                                    : judge_entry(*golden, *entry, input, variant, *run));
  }
}

}  // namespace

CheckResult judge_entry(const Golden& file, const Entry& golden, const CheckInput& input, const std::string& variant,
                        const trace::RunTrace& run) {
  if (auto result = stranger(file, golden, input, accepted_as(input, variant), run)) return *result;
  if (const auto why = recorded_otherwise(golden, input, variant, run); !why.empty())
    return CheckResult{.status = Status::kBaseline, .why = why, .next = accept_command(input)};
  const std::vector<trace::Channel> channels = compared_channels(input, run);
  std::string untruth;
  const compare::Scope scope = input.spec.of.empty() ? compare::Scope() : checks::across_layouts({&run});
  CheckResult result =
      checks::result_of(compare::compare_runs(golden.run, run, channels, bitwise_and_true(untruth), scope), input);
  if (result.next.empty()) result.next = accept_command(input);
  const bool stale = golden.run.ranks[0].header.value("train_digest", "") !=
                         input.train_digests.at(accepted_variant(input, variant).name) ||
                     !changed_inputs(golden, input, run).empty();
  if (result.divergence) {
    explain_change(golden, input, variant, run, stale, *result.divergence);
    result.next = input.spec.of.empty() ? "if the change is intended: " + accept_command(input)
                                        : "let '" + variant + "' compute what '" + input.spec.of +
                                              "' computes, or give it a golden of its own";
  } else if (result.status != Status::kAgree) {
    return result;
  } else if (stale) {
    result.status = Status::kBaseline;
    result.why = "the golden belongs to an older version of this training (" +
                 changes_since(golden, input, variant, run) + "), but the traces are equal";
  } else if (const std::string edit = contradiction_in(golden, input, variant, run, untruth); !edit.empty()) {
    return {.status = Status::kInconclusive,
            .why = "the golden contradicts itself: " + edit + " (" + golden.run.ranks[0].origin + ")",
            .next = "restore it from version control, or: " + accept_command(input)};
  } else if (channels != checks::channels_of(input, run)) {
    const std::string gradients = checks::left_out_across_layouts({&run});
    result.why = "collectives are not compared with those of '" + input.spec.of + "'" +
                 (gradients.empty() ? "" : "; " + gradients);
  }
  return result;
}

std::optional<trace::RunTrace> golden_of(const CheckInput& input, const std::string& variant) {
  const auto golden = read_golden(path_of(input, variant));
  const Entry* const entry = golden ? entry_for(*golden, *input.of(variant).front()) : nullptr;
  return entry == nullptr ? std::nullopt : std::optional(entry->run);
}

}  // namespace lockstep::golden

namespace lockstep::checks {

/// Every repeat of every variant against its golden. It stands here, not in compare/, because it needs the store.
CheckResult check_golden(const CheckInput& input) {
  using namespace golden;
  CheckResult total;
  std::map<std::string, std::string> goldens;
  for (const std::string& variant : input.spec.variants) {
    try {
      judge_variant(input, variant, total, goldens);
    } catch (const StaleGolden& error) {
      combine(total, {.status = Status::kBaseline,
                      .why = error.problem().what + " (" + error.problem().where + ")",
                      .next = accept_command(input)});
    } catch (const Unsupported& error) {
      combine(total, {.status = Status::kInconclusive,
                      .why = error.problem().what + " (" + error.problem().where + ")",
                      .next = error.problem().next});
    } catch (const Error& error) {
      combine(total, {.status = Status::kInconclusive,
                      .why = error.problem().what + " (" + error.problem().where + ")",
                      .next = "restore it from version control, or: " + accept_command(input)});
    }
  }
  CheckResult result = concluded(std::move(total));
  result.goldens = std::move(goldens);
  return result;
}

}  // namespace lockstep::checks
