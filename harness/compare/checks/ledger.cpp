#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/compare/check.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;

/// The trainer multiplies step by step, the closed form raises to a power: float64 rounding apart, the same.
constexpr double kRelativeRounding = 1e-12;

/// Closed forms of one variant's ledger.
class Ledger {
 public:
  Ledger(const scenario::Variant& variant, std::int64_t samples) : train_(variant.train), world_(variant.world_size) {
    const Json& options = train_.sampler.options;
    each_ = train_.sampler.kind == "none" ? samples : options.at("drop_last").get<bool>() ? samples / world_ : (samples + world_ - 1) / world_;
    micro_ = train_.batch.micro_size(world_);
    per_epoch_ = (each_ + micro_ - 1) / micro_;
    base_ = scenario::base_learning_rate(train_, world_);
  }

  double learning_rate(std::int64_t step) const {
    if (train_.schedule.kind == "constant") return base_;
    const auto decays = step / train_.schedule.options.at("every").get<std::int64_t>();
    return base_ * std::pow(train_.schedule.options.at("gamma").get<double>(), static_cast<double>(decays));
  }

  std::int64_t epoch(std::int64_t step) const { return ((step + 1) * train_.batch.accumulation - 1) / per_epoch_; }

  /// Samples of one rank in this step: the last micro-batch of an epoch may be short.
  std::int64_t denominator(std::int64_t step) const { return taken(step) - taken(step - 1); }

  /// Samples of one rank up to and including this step.
  std::int64_t taken(std::int64_t step) const {
    const std::int64_t micro_batches = (step + 1) * train_.batch.accumulation;
    return micro_batches / per_epoch_ * each_ + micro_batches % per_epoch_ * micro_;
  }

  bool usable() const { return each_ > 0 && micro_ > 0; }

 private:
  const scenario::TrainSpec& train_;
  std::int64_t world_, each_ = 0, micro_ = 0, per_epoch_ = 0;
  double base_ = 0;
};

CheckResult judge_rank(const trace::Trace& trace, const trace::RunTrace& run, const Ledger& ledger) {
  CheckResult result;
  const auto fail = [&](std::int64_t step, const char* name, const std::string& expected, const std::string& actual) {
    if (result.divergence) return;
    result.status = CheckResult::Status::kDivergence;
    result.divergence = Divergence{.step = step, .channel = Channel::kLedger, .tensor = name, .rank = trace.rank, .left = "closed form", .right = run.run, .expected = expected, .actual = actual, .class_ = "semantic", .cause = std::string(name) + " does not follow the scenario: " + (std::string(name) == "learning_rate" ? "rule, schedule, or its restore" : "sampler position, batch size, or their restore")};
  };
  const auto expect_integer = [&](const trace::Step& step, const char* name, std::int64_t expected) {
    const Record* record = step.find(Channel::kLedger, name);
    if (record == nullptr || record->integers.size() != 1) return;
    ++result.compared;
    if (record->integers[0] != expected) fail(step.step, name, std::to_string(expected), std::to_string(record->integers[0]));
  };
  for (const trace::Step& step : trace.steps) {
    if (const Record* rate = step.find(Channel::kLedger, "learning_rate"); rate != nullptr && rate->number) {
      ++result.compared;
      const double expected = ledger.learning_rate(step.step);
      if (!(std::fabs(*rate->number - expected) <= kRelativeRounding * std::fabs(expected))) fail(step.step, "learning_rate", to_decimal(expected), to_decimal(*rate->number));
    }
    expect_integer(step, "epoch", ledger.epoch(step.step));
    expect_integer(step, "loss_denominator", ledger.denominator(step.step));
    expect_integer(step, "samples_taken", ledger.taken(step.step));
    expect_integer(step, "updates", step.step + 1);
  }
  return result;
}

}  // namespace

CheckResult check_ledger(const CheckInput& input) {
  CheckResult total;
  for (const std::string& name : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(name)) {
      const trace::RunTrace& run = *repeat;
      const Ledger ledger(input.scenario.variant(name), run.ranks[0].header.value("samples", std::int64_t{0}));
      CheckResult of_run;
      for (const trace::Trace& rank : run.ranks) {
        if (ledger.usable()) combine(of_run, judge_rank(rank, run, ledger));
      }
      if (of_run.compared == 0 && of_run.status == CheckResult::Status::kAgree) of_run = {.status = CheckResult::Status::kInconclusive, .why = "'" + name + "' recorded no ledger"};
      combine(total, std::move(of_run));
    }
  }
  return total;
}

}  // namespace lockstep::compare
