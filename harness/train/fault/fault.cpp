#include "harness/train/fault/fault.h"

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

Faults::Faults(const recipe::TrainSpec& spec, std::int64_t rank) {
  for (const recipe::FaultChoice& fault : spec.faults) {
    const auto whose = fault.options.at("rank").get<std::int64_t>();
    if (whose == rank || whose < 0)
      mine_.push_back(
          {.fault = make_fault(fault, spec.gradient), .first = fault.options.at("step").get<std::int64_t>()});
  }
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
