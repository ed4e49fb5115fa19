#include "harness/audit/examination.h"

#include <algorithm>
#include <utility>

#include "harness/audit/checkpoint_audit.h"
#include "harness/audit/layout_audit.h"
#include "harness/audit/scaling_audit.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/laws/promise.h"

namespace lockstep::audit {
namespace {

using scenario::Variant;

/// The variant that an audit takes by default, if it is there.
constexpr const char* kRecipe = "recipe";

const Variant& chosen(const scenario::Scenario& scenario, const std::string& name) {
  std::vector<std::string> names;
  for (const Variant& variant : scenario.variants) {
    if (variant.name == (name.empty() ? kRecipe : name)) return variant;
    names.push_back(variant.name);
  }
  if (name.empty()) return scenario.variants.front();
  throw InputError({.what = "unknown variant '" + name + "'",
                    .where = scenario.file.string(),
                    .expected = "one of: " + join(names, ", "),
                    .next = suggest(name, names)});
}

std::unique_ptr<Recipe> recipe_of(const scenario::Scenario& scenario, const Request& request) {
  const Variant& variant = chosen(scenario, request.variant);
  if (variant.program) return program_recipe(variant, request.options, request.steps, scenario.file.string());
  return worker_recipe(variant, request.steps);
}

std::string option_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// "lenet, digits, sgd (lr 0.1, momentum 0.9), linear rule, step schedule"
std::string words_of(const Variant& variant) {
  if (variant.program) return join(variant.program->command, " ");
  const recipe::TrainSpec& train = variant.train;
  std::vector<std::string> options;
  for (const char* key : {"lr", "momentum", "betas", "eps", "weight_decay"}) {
    const Json value = train.optimizer.options.value(key, Json());
    if (!value.is_null() && value != 0) options.push_back(std::string(key) + " " + option_text(value));
  }
  std::string words = text_of(train.model.kind) + " on " + text_of(train.data.kind) + ", " +
                      text_of(train.optimizer.kind) + " (" + join(options, ", ") + "), sampler " +
                      text_of(train.sampler.kind);
  if (train.schedule.kind != recipe::ScheduleKind::kConstant)
    words += ", schedule " + text_of(train.schedule.kind) + " by " + text_of(train.schedule_every);
  words += train.learning_rate_rule.kind == recipe::RateRuleKind::kNone
               ? ", no rule for the rate"
               : ", rate by the " + text_of(train.learning_rate_rule.kind) + " rule";
  return words;
}

/// With the numbers of ranks of its layouts, or the audit's default ones, if none are given.
Request completed(Request request, const Variant& recipe) {
  if (request.kind == Kind::kLayout) {
    request.ranks.clear();
    for (const Layout& layout : request.layouts) request.ranks.push_back(layout.ranks);
  }
  if (request.ranks.empty())
    request.ranks = request.kind == Kind::kScaling ? ranks_of_scaling() : ranks_of_checkpoint(recipe);
  return request;
}

}  // namespace

std::int64_t samples_said(const scenario::Scenario& scenario, const Request& request) {
  const Variant& variant = chosen(scenario, request.variant);
  if (variant.program) return variant.knows("data") ? variant.train.data.options.at("samples").get<std::int64_t>() : 0;
  return laws::size_said(variant.train.data).value_or(0);
}

scenario::Scenario probe(const scenario::Scenario& scenario, const Request& request) {
  Request one = completed(request, chosen(scenario, request.variant));
  one.steps = 1;
  const std::unique_ptr<Recipe> recipe = recipe_of(scenario, one);
  Derivation derivation(scenario, recipe->variant());
  derivation.hold({.id = "probe"}, recipe->as_written(*std::min_element(one.ranks.begin(), one.ranks.end())),
                  scenario::CheckKind::kFinishes);
  return derivation.scenario();
}

Examination::Examination(const scenario::Scenario& scenario, const Request& request)
    : original_(scenario),
      request_(completed(request, chosen(scenario, request.variant))),
      recipe_(recipe_of(scenario, request_)),
      derivation_(scenario, recipe_->variant()) {}

std::set<std::string> Examination::needs_of(std::size_t statement) const {
  const Statement& one = derivation_.statements().at(statement);
  std::vector<std::size_t> checks = one.laws;
  for (const std::optional<std::size_t>& check : {one.check, one.bitwise}) {
    if (check) checks.push_back(*check);
  }
  std::set<std::string> variants;
  for (const std::size_t check : checks) {
    const scenario::CheckSpec& spec = scenario().checks.at(check);
    variants.insert(spec.variants.begin(), spec.variants.end());
  }
  return variants;
}

std::vector<std::size_t> Examination::answered_by(const std::set<std::string>& variants) const {
  std::vector<std::size_t> answered;
  for (std::size_t i = 0; i < derivation_.statements().size(); ++i) {
    const std::set<std::string> needs = needs_of(i);
    if (!needs.empty() && std::includes(variants.begin(), variants.end(), needs.begin(), needs.end()))
      answered.push_back(i);
  }
  return answered;
}

Line Examination::line_of(std::size_t statement, const plan::Plan& plan, const judge::Verdict& verdict,
                          const std::vector<judge::Evidence>& evidence) const {
  const Answers answers(plan, verdict, evidence);
  Line line = answers.of(derivation_.statements().at(statement));
  weigh(line, derivation_.statements()[statement], answers);
  return line;
}

bool Examination::is_open(std::size_t check, const plan::Plan& plan, const judge::Verdict& verdict,
                          const std::vector<judge::Evidence>& evidence) const {
  for (std::size_t i = 0; i < derivation_.statements().size(); ++i) {
    const Statement& one = derivation_.statements()[i];
    const bool names = std::find(one.laws.begin(), one.laws.end(), check) != one.laws.end();
    const bool is_foreseen = one.claim == Claim::kDiffers || one.claim == Claim::kRepeats || one.claim == Claim::kTold;
    if ((one.check != check && !names) || is_foreseen) continue;
    const Answer answer = line_of(i, plan, verdict, evidence).answer;
    if (answer != Answer::kNoIdentity && answer != Answer::kChanges) return true;
  }
  return false;
}

Audit Examination::answer(const plan::Plan& plan, const judge::Verdict& verdict,
                          const std::vector<judge::Evidence>& evidence, const std::string& reproduce) const {
  const Answers answers(plan, verdict, evidence);
  Audit audit{.kind = request_.kind,
              .scenario = original_.name,
              .variant = recipe_->variant().name,
              .recipe = words_of(recipe_->variant()),
              .headline = {},
              .ranks = request_.ranks,
              .is_whole = request_.only.empty(),
              .has_all_findings = !request_.is_narrowed};
  add_before(audit, answers);
  for (std::size_t i = 0; i < derivation_.statements().size(); ++i)
    audit.lines.push_back(line_of(i, plan, verdict, evidence));
  add_after(audit, answers);
  std::erase_if(audit.lines, [&](const Line& line) { return !is_asked(line.id, request_.only); });
  std::stable_sort(audit.lines.begin(), audit.lines.end(),
                   [](const Line& a, const Line& b) { return a.section < b.section; });
  for (Line& line : audit.lines) line.reproduce = reproduce + " --only " + shell_quoted(line.id);
  if (request_.findings) audit.unexpected = unexpected_in(audit, *request_.findings);
  audit.headline = headline(audit);
  return audit;
}

std::unique_ptr<Examination> examination(const scenario::Scenario& scenario, const Request& request) {
  if (request.kind == Kind::kCheckpoint) return std::make_unique<Checkpoint>(scenario, request);
  if (request.kind == Kind::kLayout) return std::make_unique<Layouts>(scenario, request);
  return std::make_unique<Scaling>(scenario, request);
}

}  // namespace lockstep::audit
