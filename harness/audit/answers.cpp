#include "harness/audit/answers.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "harness/audit/measured.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"

namespace lockstep::audit {
namespace {

using judge::CheckReport;
using judge::Status;

constexpr const char* kUnknown = "unknown";

/// A slope this near to 2 is of second order, to 1 of first.
constexpr double kNearOrder = 0.1;

/// Place, class and cause of a red check.
void take_divergence(Line& line, const CheckReport& report) {
  if (!report.result.divergence) {
    line.because = report.result.why;
    return;
  }
  const compare::Divergence& found = *report.result.divergence;
  line.at = found.place_and_rank();
  if (found.suspects.empty()) {
    line.cause = kUnknown;
    line.because = found.relation.empty() ? found.cause : found.relation;
    return;
  }
  const compare::Suspect& first = found.suspects.front();
  line.cause = first.cause + ": " + std::string(diagnosis::find_cause(first.cause)->sentence);
  line.because = join(first.evidence, "; ");
}

/// Whether torchrun says that a rank failed, which says nothing of why.
bool is_of_launcher(const std::string& text) {
  return text.find("ChildFailedError") != std::string::npos || text.find("error_file:") != std::string::npos;
}

/// The last exception that a log tells of, "ValueError: …"; empty: none.
std::string exception_in(const std::string& log) {
  static const std::regex kException(
      R"((?:^|\n)(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b[^\n]*))");
  std::string last;
  for (std::sregex_iterator at(log.begin(), log.end(), kException), end; at != end; ++at) {
    if (!is_of_launcher((*at)[1])) last = (*at)[1];
  }
  return last;
}

/// Why a run failed: its log's exception, else the log's last lines as one.
std::string last_words(const judge::RunReport& run) {
  constexpr std::size_t kMost = 300;  // characters
  std::string log = run.log_tail;
  if (const std::string exception = exception_in(log); !exception.empty()) return exception.substr(0, kMost);
  if (log.empty() || is_of_launcher(log)) return run.why;
  while (!log.empty() && log.back() == '\n') log.pop_back();
  std::replace(log.begin(), log.end(), '\n', ' ');
  if (log.size() <= kMost) return log;
  const std::size_t word = log.find(' ', log.size() - kMost);
  return "… " + log.substr(word == std::string::npos ? log.size() - kMost : word + 1);
}

}  // namespace

const trace::RunTrace* Answers::run_of(const std::string& variant) const {
  if (variant.empty()) return nullptr;
  for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
    if (plan_.runs[i].variant == variant && evidence_[i].trace) return &*evidence_[i].trace;
  }
  return nullptr;
}

const compare::Divergence* Answers::divergence_of(const Statement& statement) const {
  const auto& divergence = report(*statement.check).result.divergence;
  return divergence ? &*divergence : nullptr;
}

Line Answers::of(const Statement& statement) const {
  Line line{.id = statement.id, .section = statement.section, .text = statement.text};
  switch (statement.claim) {
    case Claim::kImpossible:
      line.because = "the recipe refuses it: " + statement.because;
      break;
    case Claim::kEqual:
    case Claim::kLaw:
    case Claim::kTold:
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

void Answers::not_decided(Line& line, const CheckReport& report) const {
  line.answer = Answer::kCannotTell;
  line.because = report.result.why.empty() ? "a run did not end well" : report.result.why;
  for (const judge::RunReport& run : verdict_.runs) {
    const bool is_side = std::any_of(report.variants.begin(), report.variants.end(), [&](const std::string& name) {
      return run.run.find("/" + name + "/") != std::string::npos;
    });
    if (!is_side || run.status == Status::kAgree) continue;
    line.because = "run " + run.run + " " + run.outcome + ": " + last_words(run);
    if (run.status == Status::kDivergence) line.failed = line.because;
  }
}

void Answers::must_hold(Line& line, const Statement& statement) const {
  const CheckReport& decides = report(*statement.check);
  if (decides.status == Status::kAgree) {
    line.answer = !statement.bitwise                                    ? statement.if_holds
                  : report(*statement.bitwise).status == Status::kAgree ? Answer::kIdentical
                                                                        : Answer::kRounding;
    if (line.answer != Answer::kNotSeen) return;
    line.because = "equal in these updates, although " + statement.because;
    line.instead = statement.instead;
  } else if (decides.status != Status::kDivergence) {
    not_decided(line, decides);
  } else if (statement.claim == Claim::kTold) {
    take_divergence(line, decides);
    const bool rounds = decides.result.divergence && decides.result.divergence->class_ == scenario::Class::kRounding;
    line.answer = rounds ? Answer::kRounding : statement.if_differs;
    if (line.cause == kUnknown) line.cause.clear();
    line.because = statement.because;
    line.instead = statement.instead;
  } else {
    line.answer = Answer::kBroken;
    take_divergence(line, named_by(statement, decides));
  }
}

void Answers::repeats(Line& line, const Statement& statement) const {
  const CheckReport& decides = report(*statement.check);
  if (decides.status != Status::kAgree && decides.status != Status::kDivergence) return not_decided(line, decides);
  line.answer = statement.if_differs;
  line.because = statement.because;
  line.instead = statement.instead;
  if (decides.status == Status::kAgree) line.because += "; measured: the same numbers as on the first number of ranks";
}

judge::CheckReport Answers::named_by(const Statement& statement, const CheckReport& decides) const {
  for (const std::size_t law : statement.laws) {
    if (report(law).status == Status::kDivergence) return report(law);
  }
  CheckReport found = decides;
  if (!statement.laws.empty() && found.result.divergence) found.result.divergence->suspects.clear();
  return found;
}

void Answers::differs(Line& line, const Statement& statement) const {
  const CheckReport& decides = report(*statement.check);
  if (decides.status == Status::kAgree) {
    line.answer = statement.if_differs;
    line.because = statement.because;
    line.instead = statement.instead;
  } else if (decides.status == Status::kDivergence && decides.result.divergence) {
    line.answer = Answer::kNotSeen;
    line.because = "rounding may explain the difference in these steps, although " + statement.because;
    line.instead = statement.instead;
  } else {
    not_decided(line, decides);
  }
}

void Answers::order(Line& line, const Statement& statement) const {
  line.answer = Answer::kCannotTell;
  std::vector<double> distances;
  bool equal_targets = true;
  for (std::size_t i = 0; i + 1 < statement.variants.size(); i += 2) {
    const trace::RunTrace *left = run_of(statement.variants[i]), *right = run_of(statement.variants[i + 1]);
    const auto distance = left == nullptr || right == nullptr ? std::nullopt : distance_at_end(*left, *right);
    if (!distance) {
      line.because = "a run did not end well, or its weights are not finite";
      return;
    }
    distances.push_back(*distance);
    equal_targets = equal_targets && has_equal_targets(*left);
  }
  std::vector<std::string> words;
  std::vector<double> slopes;
  for (std::size_t i = 0; i + 1 < distances.size(); ++i) {
    const auto slope = order_of(distances[i], distances[i + 1]);
    if (!slope) {
      line.because = "the two sides do not differ: the rate is too small to decide";
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
    const bool known = !statement.because.empty() && !(statement.by_targets && equal_targets);
    line.answer = known ? Answer::kNoIdentity : Answer::kBroken;
    line.because += known ? ": " + statement.because : "";
    line.instead = known ? statement.instead : "look for a factor: rate, denominator, or sum instead of mean";
  } else {
    line.because += ": neither 1 nor 2; kinks of the model (ReLU, max-pooling) cause this";
  }
}

}  // namespace lockstep::audit
