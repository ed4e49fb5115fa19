#include "harness/golden/golden_check.h"

#include <algorithm>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/compare/environments.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/golden/root.h"
#include "harness/golden/store.h"
#include "harness/scenario/changes.h"
#include "harness/scenario/schema.h"
#include "harness/trace/inputs.h"
#include "harness/trace/reader.h"

namespace lockstep::golden {
namespace {

using checks::CheckInput;
using checks::CheckResult;
using Status = checks::CheckResult::Status;

std::string accept_command(const CheckInput& input) {
  return "lockstep golden accept " + arguments_of(input.scenario, input.golden_root) + " --reason '…'";
}

/// A training of an older version, with the keys that have been added since.
Json with_todays_defaults(const Json& train, const char* definition) {
  try {
    return scenario::complete(train, definition, {.file = "golden", .within = ""});
  } catch (const InputError&) {
    return train;  // it has keys that are gone
  }
}

/// What the recipe says otherwise than when the golden was accepted.
std::vector<std::string> changed_keys(const trace::RunTrace& golden, const CheckInput& input,
                                      const std::string& variant) {
  std::vector<std::string> changes;
  const scenario::Variant& of = input.scenario.variant(variant);
  const char* const definition = of.recipe_definition();
  Json before =
      with_todays_defaults(golden.ranks[0].header.value("/golden/train"_json_pointer, Json::object()), definition);
  Json now = of.recipe_json();
  for (Json* train : {&before, &now}) train->erase("record");  // it changes nothing of what is computed
  for (const scenario::Change& change : scenario::changes_between(before, now, {definition}))
    changes.push_back(change.text());
  return changes;
}

/// Files that the command names and that had another content when the golden was accepted.
std::vector<std::string> changed_inputs(const trace::RunTrace& golden, const trace::RunTrace& run) {
  return keys_that_differ(trace::inputs_in(golden.ranks[0].header, run.written),
                          trace::inputs_in(run.ranks[0].header, run.written));
}

std::string changes_since(const trace::RunTrace& golden, const CheckInput& input, const std::string& variant,
                          const trace::RunTrace& run) {
  std::vector<std::string> changes = changed_keys(golden, input, variant);
  for (const std::string& file : changed_inputs(golden, run)) changes.push_back("the content of " + file);
  return changes.empty() ? "data, world size, or the training that it resumes" : join(changes, ", ");
}

/// The variant whose golden it is held against: a mutation has none of its own.
const std::string& accepted_as(const CheckInput& input, const std::string& variant) {
  const std::string& original = input.scenario.variant(variant).mutation_of;
  return original.empty() ? variant : original;
}

/// Folder of the golden that a variant is held against, below the root of its scenario.
std::filesystem::path directory_of(const Root& root, const CheckInput& input, const std::string& variant) {
  return golden_directory(root.folder, input.scenario.name, key_of(*input.of(variant).front()),
                          accepted_as(input, variant));
}

/// Whether the golden is of this scenario and variant at all.
std::optional<CheckResult> stranger(const trace::RunTrace& golden, const CheckInput& input, const std::string& accepted,
                                    const trace::RunTrace& run) {
  const Json& header = golden.ranks[0].header;
  const auto describe = [](const std::string& scenario, const std::string& name, std::int64_t ranks) {
    return "'" + scenario + "', variant '" + name + "', " + std::to_string(ranks) + " ranks";
  };
  const std::string expected = describe(input.scenario.name, accepted, run.world_size());
  const std::string actual = describe(header.value("scenario", "?"), header.value("variant", "?"), golden.world_size());
  if (expected == actual) return std::nullopt;
  return CheckResult{.status = Status::kBaseline,
                     .why = "the golden in " + golden.ranks[0].origin + " belongs to another training: expected " +
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
std::string recorded_otherwise(const trace::RunTrace& golden, const CheckInput& input, const std::string& variant,
                               const trace::RunTrace& run) {
  const Json record = golden.ranks[0].header.value("/golden/train/record"_json_pointer, Json());
  if (!record.is_object()) return "";
  const recipe::RecordSpec& now = input.scenario.variant(variant).train.record;
  if (record.value("every", now.every) != now.every)
    return "the golden was recorded with train.record.every = " + record["every"].dump() + ", the run with " +
           std::to_string(now.every);
  const recipe::RecordSpec then{.channels = record.value("channels", now.channels), .captures = {}};
  for (const trace::ChannelInfo& row : trace::kChannels) {
    const bool was_held = then.holds(row.channel), is_held = now.holds(row.channel);
    const std::string channel(row.name);
    if (was_held && !is_held && holds(golden, row.channel))
      return "the golden holds the channel '" + channel + "', which the run does not record";
    if (!was_held && is_held && holds(run, row.channel))
      return "the run records the channel '" + channel + "', which the golden does not hold";
  }
  return "";
}

/// A golden that lost lines lacks steps: that says nothing about the training.
bool is_lost(const compare::Divergence& divergence, const std::vector<std::string>& damage) {
  return !damage.empty() && divergence.left.missing == compare::Missing::kStep;
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

std::vector<compare::Suspect> suspects_in_recipe(const trace::RunTrace& golden, const CheckInput& input,
                                                 const std::string& variant) {
  auto changes = changed_keys(golden, input, variant);
  if (changes.empty()) return {};
  return {{"recipe.changed", std::move(changes)}};
}

/// The digest of a training covers its recipe, its data, and what it loads. If the recipe is the same and nothing is
/// loaded, another digest means other data.
std::vector<compare::Suspect> suspects_by_digest(const CheckInput& input, const std::string& variant) {
  const scenario::Variant& of = input.scenario.variant(variant);
  if (of.train.checkpoint.load || !scenario::sources_of(of).empty()) return {};
  return {{"data.content", {"the recipe equals the golden's, but the digest of recipe and data differs"}}};
}

CheckResult judge(const trace::RunTrace& golden, const CheckInput& input, const std::string& variant,
                  const trace::RunTrace& run) {
  const std::vector<std::string> damage = damage_of(golden);
  const std::string restore = damage.empty() ? "" : "restore the golden from version control, or: ";
  const auto damaged = [&] {
    return CheckResult{.status = Status::kInconclusive,
                       .why = "the golden is damaged: " + damage[0],
                       .next = restore + accept_command(input)};
  };
  if (auto result = stranger(golden, input, accepted_as(input, variant), run))
    return damage.empty() ? *result : damaged();
  if (const auto why = recorded_otherwise(golden, input, variant, run); !why.empty() && damage.empty())
    return CheckResult{.status = Status::kBaseline, .why = why, .next = accept_command(input)};
  compare::Comparison comparison =
      compare::compare_runs(golden, run, checks::channels_of(input, run), compare::bitwise);
  CheckResult result = checks::result_of(comparison, input);
  if (result.next.empty()) result.next = accept_command(input);
  const bool stale = golden.ranks[0].header.value("train_digest", "") != input.train_digests.at(variant) ||
                     !changed_inputs(golden, run).empty();
  if (result.divergence && !is_lost(*result.divergence, damage)) {
    if (stale)
      result.divergence->cause +=
          "; the training changed since the golden was accepted: " + changes_since(golden, input, variant, run);
    if (!damage.empty()) result.divergence->cause = "the golden file is damaged (" + damage[0] + ")";
    if (!stale && damage.empty()) blame_environment(golden, run, *result.divergence);
    std::vector<compare::Suspect>& suspects = result.divergence->suspects;
    if (suspects.empty() && damage.empty() && stale) suspects = suspects_in_recipe(golden, input, variant);
    if (suspects.empty() && damage.empty())
      suspects = suspects_in_data(golden, run, input.scenario.variant(variant), *result.divergence);
    if (suspects.empty() && damage.empty() && stale) suspects = suspects_by_digest(input, variant);
    result.next = (damage.empty() ? "if the change is intended: " : restore) + accept_command(input);
  } else if (!damage.empty()) {
    return damaged();
  } else if (stale && result.status == Status::kAgree) {
    result.status = Status::kBaseline;
    result.why = "the golden belongs to an older version of this training (" +
                 changes_since(golden, input, variant, run) + "), but the traces are equal";
  }
  return result;
}

/// Why a variant has no golden: there may be some of other processors.
std::string nothing_in(const std::filesystem::path& directory, const Root& root, const CheckInput& input,
                       const std::string& variant) {
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root.folder / input.scenario.name, error)) {
    if (std::filesystem::exists(entry.path() / variant / trace::file_name_of_rank(0), error))
      others.push_back(entry.path().filename().string());
  }
  std::sort(others.begin(), others.end());
  const std::string own = directory.parent_path().filename().string();
  return "there is no golden in " + directory.string() + " (" + root.reason + ")" +
         (others.empty() ? ""
                         : "; this run is of the processors '" + own + "', and there is one of: " + join(others, ", "));
}

}  // namespace

std::optional<trace::RunTrace> golden_of(const CheckInput& input, const std::string& variant) {
  return read_golden(directory_of(root_of(input.scenario.file, input.golden_root), input, variant));
}

}  // namespace lockstep::golden

namespace lockstep::checks {

/// Every repeat of every variant against its golden. It stands here, not in compare/, because it needs the store.
CheckResult check_golden(const CheckInput& input) {
  using namespace golden;
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    const Root root = root_of(input.scenario.file, input.golden_root);
    try {
      const auto golden = golden_of(input, variant);
      if (golden) {
        for (const trace::RunTrace* run : input.of(variant)) combine(total, judge(*golden, input, variant, *run));
      } else {
        combine(total, {.status = Status::kBaseline,
                        .why = nothing_in(directory_of(root, input, variant), root, input, variant),
                        .next = accept_command(input)});
      }
    } catch (const Error& error) {
      combine(total, {.status = Status::kInconclusive,
                      .why = error.problem().what + " (" + error.problem().where + ")",
                      .next = "restore it from version control, or: " + accept_command(input)});
    }
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
