#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/law.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// The loss scale of one rank, update by update.
class Scale {
 public:
  explicit Scale(const recipe::GradientSpec& spec) : dynamic_(spec.dynamic_scale) {}

  /// The scale that follows an update; nothing before the first one.
  std::optional<float> next() const { return next_; }

  /// *Source*: torch._amp_update_scale_, PyTorch 2.11.
  void take(float scale, bool skipped) {
    next_ = scale;
    if (!dynamic_) return;
    if (skipped) {
      next_ = static_cast<float>(scale * dynamic_->backoff);
      good_ = 0;
    } else if (++good_ == dynamic_->interval) {
      const auto grown = static_cast<float>(scale * dynamic_->growth);
      if (std::isfinite(grown)) next_ = grown;
      good_ = 0;
    }
  }

 private:
  std::optional<recipe::GradientSpec::DynamicScale> dynamic_;
  std::optional<float> next_;
  std::int64_t good_ = 0;  ///< updates since the last skipped one, or the last growth
};

bool has_infinite_gradient(const trace::Step& step) {
  for (const trace::Record& record : step.records) {
    if (record.channel == Channel::kGradient && is_plain(record) && !is_finite(record)) return true;
  }
  return false;
}

std::optional<Breach> breach_of(const trace::Trace& rank, const recipe::TrainSpec& train, std::size_t& judged) {
  Scale scale(train.gradient);
  std::int64_t skips = 0;
  for (const trace::Step& step : rank.steps) {
    const trace::Record *now = step.find(Channel::kLedger, trace::entry::kLossScale),
                        *skipped = step.find(Channel::kLedger, trace::entry::kSkipped);
    if (now == nullptr || !now->number || skipped == nullptr || skipped->integers.size() != 1) continue;
    const auto at = [&](const char* name) { return RecordPlace{step.step, Channel::kLedger, name, rank.rank}; };
    const bool skips_now = skipped->integers[0] > skips;
    skips = skipped->integers[0];
    ++judged;
    if (skips_now != has_infinite_gradient(step))
      return Breach{
          .at = at(trace::entry::kSkipped),
          .expected = skips_now ? "an update, as all gradients are finite" : "no update with infinite gradients",
          .actual = skips_now ? "it is skipped" : "it is not skipped"};
    const auto expected = scale.next();
    if (expected && static_cast<float>(*now->number) != *expected)
      return Breach{.at = at(trace::entry::kLossScale),
                    .expected = to_decimal(static_cast<double>(*expected)),
                    .actual = to_decimal(*now->number)};
    scale.take(static_cast<float>(*now->number), skips_now);
  }
  return std::nullopt;
}

}  // namespace

std::string no_scale_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  if (promises.known || promises.train.gradient.loss_scale)
    return promises.train.checkpoint.load ? "the scale's count of updates is not in a checkpoint" : "";
  return "the recipe does not scale its loss";
}

Outcome judge_scale(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("how this program scales its loss is not promised");
  if (promises.train.record.every != 1) return cannot_tell("not every step is recorded");
  Outcome outcome;
  for (const trace::Trace& rank : run.ranks) {
    auto broken = breach_of(rank, promises.train, outcome.judged);
    if (broken && (!outcome.broken || broken->at.step < outcome.broken->at.step)) outcome.broken = std::move(broken);
  }
  return outcome;
}

}  // namespace lockstep::laws
