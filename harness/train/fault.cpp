#include "harness/train/fault.h"

#include <algorithm>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) \
  std::unique_ptr<Fault> make_##name##_fault(const Json& options, const scenario::GradientSpec& gradient);
#include "kinds/fault.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Fault> make_fault(const scenario::Choice& choice, const scenario::GradientSpec& gradient) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_fault(choice.options, gradient);
#include "kinds/fault.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no fault of kind " + choice.kind});
}

Faults::Faults(const scenario::TrainSpec& spec, std::int64_t rank) : rank_(rank) {
  for (const scenario::Choice& fault : spec.faults) {
    const auto whose = fault.options.at("rank").get<std::int64_t>();
    if (whose == rank || whose < 0)
      mine_.push_back(
          {.fault = make_fault(fault, spec.gradient), .first = fault.options.at("step").get<std::int64_t>()});
  }
}

scenario::DeterminismSpec Faults::determinism(scenario::DeterminismSpec spec) const {
  for (const Entry& entry : mine_) entry.fault->determinism(spec);
  return spec;
}

scenario::Choice Faults::sampler(scenario::Choice choice) const {
  for (const Entry& entry : mine_) entry.fault->sampler(choice, rank_);
  return choice;
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
  bool any = false;
  each([&](Fault& fault) { any = any || fault.ends(); });
  return any;
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

bool Faults::keeps_last_gradients() const {
  bool any = false;
  each([&](Fault& fault) { any = any || fault.keeps_last_gradients(); });
  return any;
}

void Faults::own_gradient(const at::Tensor& gradient) const {
  each([&](Fault& fault) { fault.own_gradient(gradient); });
}

bool Faults::keeps_own_gradient(const std::string& parameter) const {
  bool any = false;
  each([&](Fault& fault) { any = any || fault.keeps_own_gradient(parameter); });
  return any;
}

bool Faults::reduces_by_hand() const {
  bool any = false;
  each([&](Fault& fault) { any = any || fault.reduces_by_hand(); });
  return any;
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

double Faults::learning_rate(double rate) const {
  each([&](Fault& fault) { rate = fault.learning_rate(rate); });
  return rate;
}

bool Faults::updates() const {
  bool all = true;
  each([&](Fault& fault) { all = all && fault.updates(); });
  return all;
}

void Faults::updated(const Updated& rank) const {
  each([&](Fault& fault) { fault.updated(rank); });
}

bool Faults::averages() const {
  bool all = true;
  each([&](Fault& fault) { all = all && fault.averages(); });
  return all;
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

void Faults::require_samples(const Loader& loader, std::int64_t updates, const scenario::BatchSpec& batch) const {
  const auto micro_batches = [&](std::int64_t done) { return batch.micro_batches(done, loader.batches_per_epoch()); };
  for (const Entry& entry : mine_) {
    if (entry.first < updates) continue;
    for (std::int64_t k = micro_batches(entry.first); k < micro_batches(entry.first + 1); ++k)
      entry.fault->require_samples(static_cast<std::size_t>(loader.size_of(k - micro_batches(updates))));
  }
}

}  // namespace lockstep::train
