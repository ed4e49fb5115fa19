#include "harness/train/loop/evaluation.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "harness/base/error.h"
#include "harness/train/loop/loss.h"
#include "harness/train/model/model.h"

namespace lockstep::train {

std::int64_t training_samples(const std::optional<recipe::EvaluationSpec>& spec, const Dataset& data) {
  const std::int64_t left = data.size() - (spec ? spec->samples : 0);
  if (left > 0) return left;
  throw InputError({.what = "the evaluation leaves no samples to train on",
                    .where = "train.evaluation.samples",
                    .expected = "less than the " + std::to_string(data.size()) + " samples of the data",
                    .actual = std::to_string(spec ? spec->samples : 0)});
}

Evaluation::Evaluation(const recipe::EvaluationSpec& spec, const Dataset& data, const launch::Place& place,
                       Collective& collective, const Faults& faults)
    : spec_(spec), data_(data), collective_(collective), faults_(faults), ranks_(place.world_size) {
  const std::int64_t first = training_samples(spec, data),
                     ranks = spec.shares == recipe::Shares::kAll ? 1 : place.world_size;
  const std::int64_t rank = spec.shares == recipe::Shares::kAll ? 0 : place.rank;
  const std::int64_t whole = spec.samples / ranks * ranks;
  // As DistributedSampler without shuffling: every W-th; the head fills up what does not divide.
  const std::int64_t dealt =
      spec.shares == recipe::Shares::kLeftovers ? whole : (spec.samples + ranks - 1) / ranks * ranks;
  for (std::int64_t i = rank; i < dealt; i += ranks) {
    mine_.push_back(first + i % spec.samples);
    counted_ += spec.shares == recipe::Shares::kPadded || i < spec.samples ? 1 : 0;
  }
  for (std::int64_t i = dealt; i < spec.samples; ++i) leftovers_.push_back(first + i);
  if (spec.samples >= ranks || spec.shares == recipe::Shares::kPadded || spec.shares == recipe::Shares::kLeftovers)
    return;  // each has one
  if (spec.average == recipe::EvaluationAverage::kSamples && spec.reduce != recipe::EvaluationReduce::kNone)
    return;  // all together have a mean
  throw InputError({.what = "a rank evaluates no samples, so it has no mean",
                    .where = "train.evaluation.samples",
                    .expected = "at least " + std::to_string(ranks) + ", one for each rank",
                    .actual = std::to_string(spec.samples),
                    .next = "hold out more samples, or reduce, and average over samples"});
}

Metrics Evaluation::run(Model& model, Ddp& ddp) const {
  const at::NoGradGuard no_grad;
  model.train(faults_.any(&Fault::evaluates_in_training_mode));
  MetricSums own = evaluate(ddp, mine_, counted_);
  if (spec_.average == recipe::EvaluationAverage::kRanks) {
    at::Tensor mean = at::tensor({own.loss / own.targets, own.correct / own.targets}, at::kFloat);
    mean = reduced(mean);
    if (reduces()) mean.div_(static_cast<double>(faults_.passed(&Fault::metric_divisor, ranks_)));
    model.train();
    return {.loss = mean[0].item<double>(), .accuracy = mean[1].item<double>(), .counted = {}, .own = std::move(own)};
  }
  const at::Tensor sums = reduced(at::tensor({own.loss, own.correct, own.targets}, at::kDouble));
  MetricSums rest = leftovers_.empty() ? MetricSums{} : evaluate(ddp, leftovers_, leftovers_.size());
  model.train();
  const double targets = sums[2].item<double>() + rest.targets;
  return {.loss = (sums[0].item<double>() + rest.loss) / targets,
          .accuracy = (sums[1].item<double>() + rest.correct) / targets,
          .counted = static_cast<std::int64_t>(targets),
          .own = std::move(own),
          .rest = std::move(rest)};
}

MetricSums Evaluation::evaluate(Ddp& ddp, std::vector<std::int64_t> ids, std::size_t counted) const {
  const auto before = faults_.passed(&Fault::evaluates_samples_before, std::int64_t{0});
  for (std::int64_t& id : ids) id -= before;
  at::empty({}, at::kLong).random_();  // as every loop over a DataLoader draws
  MetricSums sums;
  const auto batch = static_cast<std::size_t>(spec_.batch);
  for (std::size_t from = 0; from < ids.size(); from += batch) {
    const std::size_t to = std::min(from + batch, ids.size());
    const Samples samples = data_.take({ids.data() + from, ids.data() + to}, /*epoch=*/0).on(ddp.device());
    const at::Tensor logits = ddp.forward(samples.x, /*sync=*/false);
    const auto kept = static_cast<std::int64_t>(std::min(to, counted)) - static_cast<std::int64_t>(from);
    const at::Tensor of_kept = logits.narrow(0, 0, kept);
    const at::Tensor labels = samples.y.narrow(0, 0, kept);
    const auto targets = static_cast<double>(targets_in(labels));
    if (targets == 0) continue;  // nothing but padding, which has no mean
    sums.loss += mean_loss(of_kept, labels).item<double>() * targets;
    sums.correct += static_cast<double>(of_kept.argmax(-1).eq(labels).sum().item<std::int64_t>());
    sums.targets += targets;
  }
  sums.ids = std::move(ids);
  return sums;
}

bool Evaluation::reduces() const {
  return spec_.shares != recipe::Shares::kAll && spec_.reduce != recipe::EvaluationReduce::kNone;
}

at::Tensor Evaluation::reduced(const at::Tensor& own) const {
  if (!reduces()) return own.clone();
  return collective_.metric_sum(own, /*root_only=*/spec_.reduce == recipe::EvaluationReduce::kRoot);
}

}  // namespace lockstep::train
