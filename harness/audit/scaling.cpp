#include "harness/audit/scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/audit/measured.h"
#include "harness/audit/quantities.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"

namespace lockstep::audit {
namespace {

using report::CheckReport;
using report::Status;
using scenario::Variant;

/// A slope this near to 2 is of second order, to 1 of first.
constexpr double kNearOrder = 0.1;

/// The variant that an audit takes if it is there and nobody names one.
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
  if (variant.program) return program_recipe(variant, request.options, scenario.file.string());
  return worker_recipe(variant, request.steps);
}

std::string option_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// "lenet, digits, sgd (lr 0.1, momentum 0.9), linear rule, step schedule"
std::string words_of(const Variant& variant) {
  if (variant.program) return join(variant.program->command, " ");
  const scenario::TrainSpec& train = variant.train;
  std::vector<std::string> options;
  for (const char* key : {"lr", "momentum", "betas", "eps", "weight_decay"}) {
    const Json value = train.optimizer.options.value(key, Json());
    if (!value.is_null() && value != 0) options.push_back(std::string(key) + " " + option_text(value));
  }
  std::string words = train.model.kind + " on " + train.data.kind + ", " + train.optimizer.kind + " (" +
                      join(options, ", ") + "), sampler " + train.sampler.kind;
  if (train.schedule.kind != "constant") words += ", schedule " + train.schedule.kind + " by " + train.schedule_every;
  words += train.learning_rate_rule.kind == "none" ? ", no rule for the rate"
                                                   : ", rate by the " + train.learning_rate_rule.kind + " rule";
  return words;
}

/// Place, class and cause of a red check.
void take_divergence(Line& line, const CheckReport& report) {
  if (!report.result.divergence) {
    line.because = report.result.why;
    return;
  }
  const compare::Divergence& found = *report.result.divergence;
  line.at = found.place_and_rank();
  if (found.suspects.empty()) {
    line.cause = "unknown";
    line.because = found.relation.empty() ? found.cause : found.relation;
    return;
  }
  const compare::Suspect& first = found.suspects.front();
  line.cause = first.cause + ": " + std::string(diagnosis::find_cause(first.cause)->sentence);
  line.because = join(first.evidence, "; ");
}

/// A log's last lines as one.
std::string last_words(std::string log) {
  constexpr std::size_t kMost = 300;  // characters
  while (!log.empty() && log.back() == '\n') log.pop_back();
  std::replace(log.begin(), log.end(), '\n', ' ');
  return log.size() <= kMost ? log : log.substr(log.size() - kMost);
}

/// Reads the answers of statements.
class Answers {
 public:
  Answers(const plan::Plan& plan, const report::Verdict& verdict, const std::vector<report::Evidence>& evidence)
      : plan_(plan), verdict_(verdict), evidence_(evidence) {}

  const trace::RunTrace* run_of(const std::string& variant) const {
    if (variant.empty()) return nullptr;
    for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
      if (plan_.runs[i].variant == variant && evidence_[i].trace) return &*evidence_[i].trace;
    }
    return nullptr;
  }

  Line of(const Statement& statement) const {
    Line line{.id = statement.id, .section = statement.section, .text = statement.text};
    switch (statement.claim) {
      case Claim::kImpossible:
        line.because = "the recipe refuses it: " + statement.because;
        break;
      case Claim::kEqual:
      case Claim::kLaw:
        must_hold(line, statement);
        break;
      case Claim::kRepeats:
        repeats(line, statement);
        break;
      case Claim::kDiffers:
        differs(line, statement);
        break;
      case Claim::kSecondOrder:
        order(line, statement);
        break;
    }
    return line;
  }

 private:
  const CheckReport& report(std::size_t check) const { return verdict_.checks.at(check); }

  void not_decided(Line& line, const CheckReport& report) const {
    line.answer = Answer::kCannotTell;
    line.because = report.result.why.empty() ? "a run did not end well" : report.result.why;
    for (const report::RunReport& run : verdict_.runs) {
      const bool is_side = std::any_of(report.variants.begin(), report.variants.end(), [&](const std::string& name) {
        return run.run.find("/" + name + "/") != std::string::npos;
      });
      if (!is_side || run.status == Status::kAgree) continue;
      line.because =
          "run " + run.run + " " + run.outcome + ": " + (run.log_tail.empty() ? run.why : last_words(run.log_tail));
      if (run.status == Status::kDivergence) line.answer = Answer::kBroken;
    }
  }

  void must_hold(Line& line, const Statement& statement) const {
    const CheckReport& decides = report(*statement.check);
    if (decides.status == Status::kAgree) {
      line.answer = !statement.bitwise                                    ? Answer::kHolds
                    : report(*statement.bitwise).status == Status::kAgree ? Answer::kIdentical
                                                                          : Answer::kRounding;
    } else if (decides.status == Status::kDivergence) {
      line.answer = Answer::kBroken;
      take_divergence(line, named_by(statement, decides));
    } else {
      not_decided(line, decides);
    }
  }

  void repeats(Line& line, const Statement& statement) const {
    const CheckReport& decides = report(*statement.check);
    if (decides.status != Status::kAgree && decides.status != Status::kDivergence) return not_decided(line, decides);
    line.answer = statement.if_differs;
    line.because = statement.because;
    line.instead = statement.instead;
    if (decides.status == Status::kAgree)
      line.because += "; measured: the same numbers as on the first number of ranks";
  }

  /// The check whose finding names the cause: a broken law, where the sides' recipes differ on purpose.
  CheckReport named_by(const Statement& statement, const CheckReport& decides) const {
    for (const std::size_t law : statement.laws) {
      if (report(law).status == Status::kDivergence) return report(law);
    }
    CheckReport found = decides;
    if (!statement.laws.empty() && found.result.divergence) found.result.divergence->suspects.clear();
    return found;
  }

  void differs(Line& line, const Statement& statement) const {
    const CheckReport& decides = report(*statement.check);
    if (decides.status == Status::kAgree) {
      line.answer = statement.if_differs;
      line.because = statement.because;
      line.instead = statement.instead;
    } else if (decides.status == Status::kDivergence && decides.result.divergence) {
      line.answer = Answer::kNotSeen;
      line.because = "equal up to rounding in these steps, although " + statement.because;
      line.instead = statement.instead;
    } else {
      not_decided(line, decides);
    }
  }

  void order(Line& line, const Statement& statement) const {
    line.answer = Answer::kCannotTell;
    std::vector<double> distances;
    for (std::size_t i = 0; i + 1 < statement.variants.size(); i += 2) {
      const trace::RunTrace *left = run_of(statement.variants[i]), *right = run_of(statement.variants[i + 1]);
      const auto distance = left == nullptr || right == nullptr ? std::nullopt : distance_at_end(*left, *right);
      if (!distance) {
        line.because = "a run did not end well, or its weights are not finite";
        return;
      }
      distances.push_back(*distance);
    }
    std::vector<std::string> words;
    std::vector<double> slopes;
    for (std::size_t i = 0; i + 1 < distances.size(); ++i) {
      const auto slope = order_of(distances[i], distances[i + 1]);
      if (!slope) {
        line.because = "the two sides do not differ: the rate is too small to tell";
        return;
      }
      slopes.push_back(*slope);
      words.push_back(rounded(*slope, 4));
    }
    std::sort(slopes.begin(), slopes.end());
    const double median = slopes[slopes.size() / 2];  // one of them may meet a kink of the model
    line.because = "measured order " + join(words, ", ");
    if (std::fabs(median - 2) <= kNearOrder) {
      line.answer = Answer::kHolds;
      line.instead = statement.instead;
    } else if (std::fabs(median - 1) <= kNearOrder) {
      line.answer = statement.because.empty() ? Answer::kBroken : Answer::kNoIdentity;
      line.because += statement.because.empty() ? "" : ": " + statement.because;
      line.instead = statement.because.empty() ? "look for a factor: rate, denominator, or sum instead of mean"
                                               : statement.instead;
    } else {
      line.because += ": neither 1 nor 2, as kinks of the model make it (ReLU, max-pooling)";
    }
  }

  const plan::Plan& plan_;
  const report::Verdict& verdict_;
  const std::vector<report::Evidence>& evidence_;
};

/// What the runs of the recipe as written show by themselves.
void add_measured(Audit& audit, const std::vector<Seen>& seen) {
  const auto of = [](const Seen& one, std::optional<double> (*measure)(const trace::RunTrace&)) {
    const std::optional<double> value = one.run == nullptr ? std::nullopt : measure(*one.run);
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
  };
  for (const Seen& one : seen) {
    audit.batch.push_back(of(one, samples_in_update));
    audit.rate.push_back(of(one, largest_rate));
    audit.update.push_back(of(one, first_update));
    const double noise = of(one, noise_scale);
    if (std::isnan(noise)) continue;
    audit.lines.push_back({.id = "noise-scale@" + std::to_string(one.world_size),
                           .section = Section::kMeasured,
                           .text = "gradient noise scale of the first update: " + rounded(noise, 3) + " samples",
                           .answer = Answer::kMeasured,
                           .because = "McCandlish et al. 2018; one update is a noisy estimate"});
  }
}

/// Answers that are not as the findings have them. `is_whole`: a line that is not there is a fault, too.
std::vector<std::string> unexpected_in(const std::vector<Line>& lines, const std::map<std::string, Answer>& findings,
                                       bool is_whole) {
  std::vector<std::string> texts;
  for (const auto& [id, wanted] : findings) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&id = id](const Line& one) { return one.id == id; });
    const std::string expected = id + ": expected " + std::string(name_of(wanted)) + ", ";
    if (found == lines.end() && is_whole) texts.push_back(expected + "and there is no such line");
    if (found != lines.end() && found->answer != wanted)
      texts.push_back(expected + "not " + std::string(name_of(found->answer)));
  }
  for (const Line& line : lines) {
    const bool matters = is_finding(line) || line.answer == Answer::kCannotTell;
    if (matters && !findings.contains(line.id))
      texts.push_back(line.id + ": " + std::string(name_of(line.answer)) + ", which the findings lack");
  }
  return texts;
}

}  // namespace

std::int64_t samples_said(const scenario::Scenario& scenario, const Request& request) {
  const Variant& variant = chosen(scenario, request.variant);
  const bool is_side = variant.train.data.kind == "image_folder";  // in pixels
  return variant.program || is_side ? 0 : variant.train.data.options.value("size", std::int64_t{0});
}

scenario::Scenario probe(const scenario::Scenario& scenario, const Request& request) {
  Request one = request;
  one.steps = 1;
  const std::unique_ptr<Recipe> recipe = recipe_of(scenario, one);
  Derivation derivation(scenario, recipe->variant());
  derivation.hold({.id = "probe"}, recipe->as_written(*std::min_element(request.ranks.begin(), request.ranks.end())),
                  scenario::CheckKind::kFinishes);
  return derivation.scenario();
}

Scaling::Scaling(const scenario::Scenario& scenario, Request request)
    : original_(scenario),
      request_(std::move(request)),
      recipe_(recipe_of(scenario, request_)),
      range_(range_of(*recipe_, request_.ranks, request_.steps, request_.samples)),
      derivation_(scenario, recipe_->variant()) {
  for (const std::int64_t world_size : range_.ranks) {
    std::string refusal;
    written_.push_back(derivation_.variant(recipe_->as_written(world_size), refusal).value_or(""));
    refusals_.push_back(refusal);
  }
  add_recipe_checks(derivation_, *recipe_, range_);
  add_identities(derivation_, *recipe_, range_);
  add_matrix(derivation_, *recipe_, range_);
  std::vector<std::string> others = quantity_ids();
  for (const std::int64_t world_size : range_.ranks) others.push_back("noise-scale@" + std::to_string(world_size));
  derivation_.keep(request_.only, others, written_);
}

bool Scaling::is_open(std::size_t check) const {
  return std::any_of(derivation_.statements().begin(), derivation_.statements().end(), [&](const Statement& one) {
    const bool names = std::find(one.laws.begin(), one.laws.end(), check) != one.laws.end();
    const bool is_foreseen = one.claim == Claim::kDiffers || one.claim == Claim::kRepeats;
    return (one.check == check || names) && !is_foreseen;
  });
}

Audit Scaling::answer(const plan::Plan& plan, const report::Verdict& verdict,
                      const std::vector<report::Evidence>& evidence, const std::string& reproduce) const {
  const Answers answers(plan, verdict, evidence);
  Audit audit{.scenario = original_.name,
              .variant = recipe_->variant().name,
              .recipe = words_of(recipe_->variant()),
              .ranks = range_.ranks,
              .is_whole = request_.only.empty()};
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < range_.ranks.size(); ++i) {
    const bool is_training = !written_[i].empty();
    seen.push_back({.world_size = range_.ranks[i],
                    .variant = is_training ? &derivation_.scenario().variant(written_[i]) : nullptr,
                    .refusal = refusals_[i],
                    .run = answers.run_of(written_[i])});
  }
  audit.lines = quantities(seen);
  for (const Statement& statement : derivation_.statements()) audit.lines.push_back(answers.of(statement));
  add_measured(audit, seen);
  std::erase_if(audit.lines, [&](const Line& line) { return !is_asked(line.id, request_.only); });
  std::stable_sort(audit.lines.begin(), audit.lines.end(),
                   [](const Line& a, const Line& b) { return a.section < b.section; });
  for (Line& line : audit.lines) line.reproduce = reproduce + " --only " + shell_quoted(line.id);
  if (request_.findings) audit.unexpected = unexpected_in(audit.lines, *request_.findings, audit.is_whole);
  return audit;
}

std::string Audit::headline() const {
  constexpr std::size_t kMost = 3;  // quantities that a person reads in one line
  std::vector<std::string> changed, slips, broken;
  for (const Line& line : lines) {
    const std::string range = line.values.empty() ? "" : " " + line.values.front() + " to " + line.values.back();
    if (line.section == Section::kQuantities && line.answer == Answer::kChanges) changed.push_back(line.text + range);
    if (line.section == Section::kQuantities && line.answer == Answer::kSlip) slips.push_back(line.text + range);
    if (line.answer == Answer::kBroken) broken.push_back(line.id);
  }
  const std::string on = "on " + listed(ranks) + (ranks == std::vector<std::int64_t>{1} ? " rank" : " ranks");
  if (!is_whole && broken.empty()) return "these lines alone " + on + ": " + std::string(name_of(status()));
  if (!broken.empty()) return "broken " + on + ": " + some_of(broken, kMost);
  if (!slips.empty()) return "a slip " + on + ": " + some_of(slips, kMost);
  if (!changed.empty()) return "another computation on another number of ranks: " + some_of(changed, kMost);
  if (std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.answer == Answer::kCannotTell; }))
    return "nothing is found " + on + ", and not all could be told";
  return "the same computation " + on;
}

report::Status Audit::status() const {
  if (lines.empty()) return Status::kInconclusive;
  if (unexpected) return unexpected->empty() ? Status::kAgree : Status::kDivergence;
  if (std::any_of(lines.begin(), lines.end(), is_finding)) return Status::kDivergence;
  const bool open =
      std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.answer == Answer::kCannotTell; });
  return open ? Status::kInconclusive : Status::kAgree;
}

}  // namespace lockstep::audit
