#include "harness/train/recording/step_recorder.h"

#include <utility>

#include <ATen/ATen.h>

#include "harness/trace/entry.h"
#include "harness/train/device/generator.h"
#include "harness/train/device/tensors.h"

namespace lockstep::train {

using trace::Channel;

void StepRecorder::input(const MicroBatch& batch) {
  recorder_.tensor(Channel::kInput, "x" + batch.suffix, view_of(batch.x));
  recorder_.tensor(Channel::kInput, "y" + batch.suffix, view_of(batch.y));
}

void StepRecorder::batch(Batch& batch) {
  const RankContext& rank = parts_.rank;
  recorder_.integers(Channel::kSamples, "ids", batch.ids);
  if (recorder_.wants(Channel::kLoss) || parts_.rates.wants_loss()) {
    const Faults& faults = rank.faults;
    const auto divisor = static_cast<double>(faults.passed(&Fault::metric_divisor, rank.place.world_size));
    const at::Tensor reported = faults.passed(&Fault::reported_loss, batch.loss, batch.last_loss, rank.collective);
    const at::Tensor reduced = rank.collective.metric_sum(reported).div_(divisor);
    batch.reduced_loss = faults.passed(&Fault::followed_loss, reduced.item<double>(), batch.loss.item<double>());
    scalar(trace::entry::kReduced, reduced);
  }
  std::vector<std::string> collectives = rank.collective.take_log();
  for (std::size_t i = 0; i < collectives.size(); ++i)
    recorder_.text(Channel::kCollective, std::to_string(i), std::move(collectives[i]));
}

void StepRecorder::ledger(const Batch& batch, const std::vector<double>& learning_rates, const SlopeRecorder& slopes) {
  for (std::size_t group = 0; group < learning_rates.size(); ++group) {
    const std::string name = "learning_rate" + (group > 0 ? "." + std::to_string(group) : "");
    recorder_.number(Channel::kLedger, name, learning_rates[group]);
  }
  if (parts_.data.labels.dim() > 1) recorder_.integer(Channel::kLedger, "targets", batch.targets);
  recorder_.integer(Channel::kLedger, trace::entry::kLossDenominator,
                    parts_.spec.loss_average == recipe::LossAverage::kWorld ? batch.targets_of_world : batch.targets);
  recorder_.integer(Channel::kLedger, trace::entry::kSamplesTaken, parts_.samples_taken);
  if (const auto scale = gradients_.loss_scale()) {
    recorder_.number(Channel::kLedger, trace::entry::kLossScale, *scale);
    recorder_.integer(Channel::kLedger, trace::entry::kSkipped, parts_.skipped);
  }
  recorder_.integer(Channel::kLedger, trace::entry::kUpdates, parts_.updates + 1);
  recorder_.integer(Channel::kLedger, trace::entry::kEpoch, parts_.loader.position().epoch);
  slopes.record();
  if (batch.gradients_left > 0) recorder_.integer(Channel::kLedger, "seen.left", batch.gradients_left);
  if (!batch.trains) recorder_.integer(Channel::kLedger, "seen.training", 0);
}

void StepRecorder::metrics(const Metrics& metrics) {
  recorder_.number(Channel::kMetric, "loss", metrics.loss);
  recorder_.number(Channel::kMetric, "accuracy", metrics.accuracy);
  if (metrics.counted) recorder_.integer(Channel::kMetric, "counted", *metrics.counted);
  sums("seen.evaluated ", metrics.own);
  if (!metrics.rest.ids.empty()) sums("seen.evaluated_rest ", metrics.rest);
}

void StepRecorder::state() {
  if (recorder_.wants(Channel::kRng)) {
    trace::Record record = recorder_.observe(Channel::kRng, "cpu", view_of(rng_state()));
    record.integers = rng_place();
    recorder_.add(std::move(record));
    if (const auto own = parts_.rank.device.generator())
      recorder_.tensor(Channel::kRng, parts_.spec.device, view_of(own->get_state()));
  }
  tensors(Channel::kOptimizer, parts_.optimizer->state());
  tensors(Channel::kWeight, parts_.ddp->parameters());
  tensors(Channel::kBuffer, parts_.ddp->buffers());
  tensors(Channel::kEma, parts_.averages());
}

void StepRecorder::scalar(const std::string& name, const at::Tensor& loss) {
  if (!recorder_.wants(Channel::kLoss)) return;
  trace::Record record = recorder_.observe(Channel::kLoss, name, view_of(loss));
  record.number = loss.item<double>();
  recorder_.add(std::move(record));
}

void StepRecorder::sums(const std::string& whose, const MetricSums& sums) {
  recorder_.integers(Channel::kLedger, whose + "ids", sums.ids);
  recorder_.number(Channel::kLedger, whose + "loss", sums.loss);
  recorder_.integer(Channel::kLedger, whose + "correct", static_cast<std::int64_t>(sums.correct));
  recorder_.integer(Channel::kLedger, whose + "targets", static_cast<std::int64_t>(sums.targets));
}

void StepRecorder::tensors(Channel channel, const std::vector<NamedTensor>& all) {
  for (const NamedTensor& one : all) recorder_.tensor(channel, one.name, view_of(one.tensor));
}

}  // namespace lockstep::train
