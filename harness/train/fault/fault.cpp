#include "harness/train/fault/fault.h"

#include <algorithm>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) \
  std::unique_ptr<Fault> make_##name##_fault(const Json& options, const recipe::GradientSpec& gradient);
#include "kinds/fault.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Fault> make_fault(const recipe::FaultChoice& choice, const recipe::GradientSpec& gradient) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_fault(choice.options, gradient);
#include "kinds/fault.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no fault of kind " + choice.kind});
}

Faults::Faults(const recipe::TrainSpec& spec, std::int64_t rank) : rank_(rank) {
  for (const recipe::FaultChoice& fault : spec.faults) {
    const auto whose = fault.options.at("rank").get<std::int64_t>();
    if (whose == rank || whose < 0)
      mine_.push_back(
          {.fault = make_fault(fault, spec.gradient), .first = fault.options.at("step").get<std::int64_t>()});
  }
}

recipe::DeterminismSpec Faults::determinism(recipe::DeterminismSpec spec) const {
  for (const Entry& entry : mine_) entry.fault->determinism(spec);
  return spec;
}

recipe::SamplerChoice Faults::sampler(recipe::SamplerChoice choice) const {
  for (const Entry& entry : mine_) entry.fault->sampler(choice, rank_);
  return choice;
}

std::int64_t Faults::rank_of_share() const {
  std::int64_t rank = rank_;
  for (const Entry& entry : mine_) rank = entry.fault->rank_of_share(rank);
  return rank;
}

bool Faults::drops_last(bool asked) const {
  for (const Entry& entry : mine_) asked = entry.fault->drops_last(asked);
  return asked;
}

recipe::DdpSpec Faults::ddp(recipe::DdpSpec spec) const {
  for (const Entry& entry : mine_) entry.fault->ddp(spec);
  return spec;
}

double Faults::average_decay(double asked) const {
  for (const Entry& entry : mine_) asked = entry.fault->average_decay(asked);
  return asked;
}

std::vector<NamedTensor> Faults::loaded(std::vector<NamedTensor> weights) const {
  for (const Entry& entry : mine_) entry.fault->loaded(weights);
  return weights;
}

std::int64_t Faults::ranks_that_saved(std::int64_t saved, std::int64_t now) const {
  for (const Entry& entry : mine_) saved = entry.fault->ranks_that_saved(saved, now);
  return saved;
}

bool Faults::keeps_ended_iterator() const {
  return std::any_of(mine_.begin(), mine_.end(),
                     [](const Entry& entry) { return entry.fault->keeps_ended_iterator(); });
}

void Faults::restored(const Restored& state) const {
  for (const Entry& entry : mine_) entry.fault->restored(state);
}

bool Faults::ends() const {
  return any([](Fault& fault) { return fault.ends(); });
}

void Faults::arrive(launch::Phase phase, Collective& collective) const {
  each([&](Fault& fault) { fault.arrive(phase, collective); });
}

void Faults::samples(std::vector<std::int64_t>& ids) const {
  each([&](Fault& fault) { fault.samples(ids); });
}

at::Tensor Faults::loss(at::Tensor loss) const {
  each([&](Fault& fault) { loss = fault.loss(loss); });
  return loss;
}

void Faults::content(const std::vector<std::int64_t>& ids, Samples& batch) const {
  each([&](Fault& fault) { fault.content(ids, batch); });
}

void Faults::passing(const std::vector<NamedTensor>& buffers) const {
  each([&](Fault& fault) { fault.passing(buffers); });
}

void Faults::passed(const std::vector<NamedTensor>& buffers) const {
  each([&](Fault& fault) { fault.passed(buffers); });
}

at::Tensor Faults::criterion(const at::Tensor& logits, const at::Tensor& labels, bool summed) const {
  at::Tensor loss;
  each([&](Fault& fault) {
    if (!loss.defined()) loss = fault.criterion(logits, labels, summed);
  });
  return loss;
}

std::int64_t Faults::accumulation(std::int64_t asked) const {
  each([&](Fault& fault) { asked = fault.accumulation(asked); });
  return asked;
}

bool Faults::keeps_last_gradient(const std::string& parameter) const {
  return any([&](Fault& fault) { return fault.keeps_last_gradient(parameter); });
}

bool Faults::clears_between_micro_batches() const {
  return any([](Fault& fault) { return fault.clears_between_micro_batches(); });
}

void Faults::own_gradient(const std::string& parameter, const at::Tensor& gradient) const {
  each([&](Fault& fault) { fault.own_gradient(parameter, gradient); });
}

void Faults::sent_gradient(const std::string& parameter, const at::Tensor& gradient) const {
  each([&](Fault& fault) { fault.sent_gradient(parameter, gradient); });
}

bool Faults::keeps_own_gradient(const std::string& parameter) const {
  return any([&](Fault& fault) { return fault.keeps_own_gradient(parameter); });
}

bool Faults::reduces_by_hand() const {
  return any([](Fault& fault) { return fault.reduces_by_hand(); });
}

void Faults::reduce(const std::vector<NamedTensor>& gradients, Collective& collective) const {
  each([&](Fault& fault) { fault.reduce(gradients, collective); });
}

void Faults::reduced(const std::string& parameter, at::Tensor& gradient) const {
  each([&](Fault& fault) { fault.reduced(parameter, gradient); });
}

Fault::Clipping Faults::clipping() const {
  Fault::Clipping clipping = Fault::Clipping::kAfterUnscaling;
  each([&](Fault& fault) {
    if (fault.clipping() != Fault::Clipping::kAfterUnscaling) clipping = fault.clipping();
  });
  return clipping;
}

bool Faults::unscales(const std::string& parameter) const {
  return !any([&](Fault& fault) { return !fault.unscales(parameter); });
}

bool Faults::clip(const std::vector<NamedTensor>& gradients, const recipe::GradientSpec& spec) const {
  return any([&](Fault& fault) { return fault.clip(gradients, spec); });
}

std::vector<double> Faults::learning_rates(std::vector<double> by_group) const {
  each([&](Fault& fault) { fault.learning_rates(by_group); });
  return by_group;
}

bool Faults::updates() const {
  bool all = true;
  each([&](Fault& fault) { all = all && fault.updates(); });
  return all;
}

bool Faults::update(const ParameterUpdate& one, const UpdateRule& rule) const {
  bool done = false;
  each([&](Fault& fault) { done = done || fault.update(one, rule); });
  return done;
}

void Faults::updated(const Updated& rank) const {
  each([&](Fault& fault) { fault.updated(rank); });
}

int Faults::averagings(bool before_update) const {
  int times = before_update ? 0 : 1;
  each([&](Fault& fault) {
    if (const int other = fault.averagings(before_update); other != (before_update ? 0 : 1)) times = other;
  });
  return times;
}

void Faults::averaged(const std::vector<NamedTensor>& averages) const {
  each([&](Fault& fault) { fault.averaged(averages); });
}

at::Tensor Faults::reported_loss(const at::Tensor& all, const at::Tensor& last, const Collective& ranks) const {
  at::Tensor reported = all;
  each([&](Fault& fault) { reported = fault.reported_loss(reported, last, ranks); });
  return reported;
}

bool Faults::evaluates_in_training_mode() const {
  return any([](Fault& fault) { return fault.evaluates_in_training_mode(); });
}

std::int64_t Faults::evaluates_samples_before() const {
  std::int64_t before = 0;
  each([&](Fault& fault) { before += fault.evaluates_samples_before(); });
  return before;
}

void Faults::evaluated(Model& model, const std::vector<NamedTensor>& weights,
                       const std::vector<NamedTensor>& averages) const {
  each([&](Fault& fault) { fault.evaluated(model, weights, averages); });
}

std::int64_t Faults::schedule_steps(std::int64_t asked, std::int64_t ranks) const {
  each([&](Fault& fault) { asked = fault.schedule_steps(asked, ranks); });
  return asked;
}

std::vector<NamedTensor> Faults::saving(std::vector<NamedTensor> optimizer) const {
  each([&](Fault& fault) { fault.saving(optimizer); });
  return optimizer;
}

std::int64_t Faults::metric_divisor(std::int64_t ranks) const {
  each([&](Fault& fault) { ranks = fault.metric_divisor(ranks); });
  return ranks;
}

double Faults::followed_loss(double reduced, double own) const {
  each([&](Fault& fault) { reduced = fault.followed_loss(reduced, own); });
  return reduced;
}

void Faults::saved(const std::filesystem::path& folder) const {
  each([&](Fault& fault) { fault.saved(folder); });
}

void Faults::require_parameters(const std::vector<NamedTensor>& parameters) const {
  for (const Entry& entry : mine_) entry.fault->require_parameters(parameters);
}

void Faults::require_samples(const Loader& loader, std::int64_t updates, const recipe::BatchSpec& batch) const {
  const auto micro_batches = [&](std::int64_t done) { return batch.micro_batches(done, loader.batches_per_epoch()); };
  for (const Entry& entry : mine_) {
    if (entry.first < updates) continue;
    for (std::int64_t k = micro_batches(entry.first); k < micro_batches(entry.first + 1); ++k)
      entry.fault->require_samples(static_cast<std::size_t>(loader.size_of(k - micro_batches(updates))));
  }
}

}  // namespace lockstep::train
