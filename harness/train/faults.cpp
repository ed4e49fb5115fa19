#include "harness/train/faults.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::train {
namespace {

std::int64_t integer(const scenario::Choice& fault, const char* key) {
  return fault.options.at(key).get<std::int64_t>();
}

void require_place(std::size_t place, std::size_t size) {
  if (place < size) return;
  throw InputError({.what = "swap_samples names a place outside the batch",
                    .where = "train.faults",
                    .expected = "less than " + std::to_string(size),
                    .actual = std::to_string(place)});
}

/// Flips a bit, counted in a float32, of one element; of a float64 the one of the same weight.
void flip(const at::Tensor& tensor, std::int64_t element, std::int64_t bit) {
  constexpr std::int64_t kSign = 31, kMoreMantissa = 29;
  if (tensor.scalar_type() == at::kDouble) {
    auto* word = reinterpret_cast<std::uint64_t*>(tensor.mutable_data_ptr()) + element;
    *word ^= std::uint64_t{1} << (bit == kSign ? 63 : bit + kMoreMantissa);
  } else {
    auto* word = reinterpret_cast<std::uint32_t*>(tensor.mutable_data_ptr()) + element;
    *word ^= 1U << bit;
  }
}

}  // namespace

Faults::Faults(const std::vector<scenario::Choice>& faults, std::int64_t rank) {
  for (const scenario::Choice& fault : faults) {
    const std::int64_t whose = integer(fault, "rank");
    if (whose == rank || whose < 0) mine_.push_back(fault);
  }
}

void Faults::arrive(std::int64_t step, launch::Phase phase) const {
  for (const scenario::Choice& fault : mine_) {
    if (fault.kind != "kill" && fault.kind != "hang" && fault.kind != "exit") continue;
    if (integer(fault, "step") != step || fault.options.at("phase") != launch::name_of(phase)) continue;
    if (fault.kind == "kill") ::kill(::getpid(), SIGKILL);
    if (fault.kind == "exit") ::_exit(static_cast<int>(integer(fault, "code")));
    while (true) ::pause();
  }
}

void Faults::disturb(std::vector<std::int64_t>& ids, std::int64_t step) const {
  for (const scenario::Choice& fault : mine_) {
    if (fault.kind != "swap_samples" || integer(fault, "step") != step) continue;
    const auto first = static_cast<std::size_t>(integer(fault, "first"));
    const auto second = static_cast<std::size_t>(integer(fault, "second"));
    require_place(std::max(first, second), ids.size());
    std::swap(ids[first], ids[second]);
  }
}

double Faults::disturb(double learning_rate, std::int64_t step) const {
  for (const scenario::Choice& fault : mine_) {
    if (fault.kind == "learning_rate_factor" && step >= integer(fault, "step"))
      learning_rate *= fault.options.at("factor").get<double>();
  }
  return learning_rate;
}

bool Faults::keeps_local_gradient(const std::string& parameter, std::int64_t step) const {
  return std::any_of(mine_.begin(), mine_.end(), [&](const scenario::Choice& fault) {
    if (fault.kind != "gradient_not_reduced" || step < integer(fault, "step")) return false;
    const auto which = fault.options.at("parameter").get<std::string>();
    return which.empty() || which == parameter;
  });
}

bool Faults::clips_before_reduction(std::int64_t step) const {
  return std::any_of(mine_.begin(), mine_.end(), [&](const scenario::Choice& fault) {
    return fault.kind == "clip_before_reduction" && step >= integer(fault, "step");
  });
}

std::int64_t Faults::metric_divisor(std::int64_t world_size, std::int64_t step) const {
  for (const scenario::Choice& fault : mine_) {
    if (fault.kind == "metric_by_device_count" && step >= integer(fault, "step")) return integer(fault, "devices");
  }
  return world_size;
}

void Faults::disturb(const std::vector<NamedTensor>& weights, std::int64_t step) const {
  for (const scenario::Choice& fault : mine_) {
    if (fault.kind != "flip_weight_bit" || integer(fault, "step") != step) continue;
    const auto which = fault.options.at("parameter").get<std::string>();
    const auto found = std::find_if(weights.begin(), weights.end(),
                                    [&](const NamedTensor& w) { return which.empty() || w.name == which; });
    LOCKSTEP_CHECK(found != weights.end());
    const std::int64_t element = integer(fault, "element") % found->tensor.numel();
    flip(found->tensor, element, integer(fault, "bit"));
  }
}

void Faults::require_samples(const Loader& loader, std::int64_t updates, const scenario::BatchSpec& batch) const {
  const auto micro_batches = [&](std::int64_t done) { return batch.micro_batches(done, loader.batches_per_epoch()); };
  for (const scenario::Choice& fault : mine_) {
    const std::int64_t step = fault.kind == "swap_samples" ? integer(fault, "step") : -1;
    if (step < updates) continue;
    const std::int64_t last = std::max(integer(fault, "first"), integer(fault, "second"));
    for (std::int64_t k = micro_batches(step); k < micro_batches(step + 1); ++k) {
      const std::int64_t size = loader.size_of(k - micro_batches(updates));
      require_place(static_cast<std::size_t>(last), static_cast<std::size_t>(size));
    }
  }
}

void Faults::require_parameters(const std::vector<NamedTensor>& parameters) const {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : parameters) names.push_back(parameter.name);
  for (const scenario::Choice& fault : mine_) {
    const auto which = fault.options.value("parameter", std::string());
    if (which.empty() || std::find(names.begin(), names.end(), which) != names.end()) continue;
    throw InputError({.what = "a fault names a parameter that the model lacks",
                      .where = "train.faults",
                      .expected = "one of: " + join(names, ", "),
                      .actual = "'" + which + "'",
                      .next = suggest(which, names)});
  }
}

}  // namespace lockstep::train
