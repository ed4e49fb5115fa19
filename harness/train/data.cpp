#include "harness/train/data.h"

#include <ATen/ATen.h>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) Dataset make_##name##_data(const Json& options);
#include "kinds/data.inc"
#undef LOCKSTEP_KIND

Dataset make_data(const scenario::Choice& choice) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_data(choice.options);
#include "kinds/data.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no data of kind " + choice.kind});
}

std::vector<std::int64_t> Dataset::shape() const {
  return augmented ? augmented->shape : inputs.sizes().slice(1).vec();
}

std::optional<std::int64_t> Dataset::targets_per_sample() const {
  if (labels.eq(kNoLabel).any().item<bool>()) return std::nullopt;
  return labels.dim() > 1 ? labels.size(1) : 1;
}

Samples Dataset::take(const std::vector<std::int64_t>& ids, std::int64_t epoch) const {
  const at::Tensor index = at::tensor(ids, at::kLong);
  const at::Tensor y = labels.index_select(0, index);
  if (!augmented) return {.x = inputs.index_select(0, index), .y = y};
  std::vector<at::Tensor> made;
  for (const std::int64_t id : ids) made.push_back(augmented->input(id, epoch));
  return {.x = at::stack(made), .y = y};
}

}  // namespace lockstep::train
