#include "harness/train/data/data.h"

#include <ATen/ATen.h>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) Dataset make_##name##_data(const Json& options);
#include "kinds/data.inc"
#undef LOCKSTEP_KIND

Dataset make_data(recipe::DataChoice choice, std::int64_t rank) {
  if (choice.options.value("per_rank", false))
    choice.options["seed"] = choice.options["seed"].get<std::int64_t>() + rank;
#define LOCKSTEP_KIND(name) \
  if (name_of(choice.kind) == #name) return make_##name##_data(choice.options);
#include "kinds/data.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no data of kind " + text_of(choice.kind)});
}

void Dataset::convert(at::ScalarType to) {
  dtype = to;
  if (inputs.defined() && inputs.is_floating_point()) inputs = inputs.to(to);
}

std::vector<std::int64_t> Dataset::shape() const {
  return augmented ? augmented->shape : inputs.sizes().slice(1).vec();
}

std::optional<std::int64_t> Dataset::targets_per_sample() const {
  if (labels.eq(kNoLabel).any().item<bool>()) return std::nullopt;
  return labels.dim() > 1 ? labels.size(1) : 1;
}

Samples Dataset::take(const std::vector<std::int64_t>& ids, std::int64_t epoch, std::int64_t rows_before) const {
  const at::Tensor index = at::tensor(ids, at::kLong);
  const auto rows_of = [&](const at::Tensor& all) {
    std::vector<std::int64_t> shape = all.sizes().vec();
    shape[0] = rows_before + index.size(0);
    at::Tensor rows = at::empty(shape, all.options()).narrow(0, rows_before, index.size(0));
    return at::index_select_out(rows, all, 0, index);
  };
  const at::Tensor y = rows_of(labels);
  if (!augmented) return {.x = rows_of(inputs), .y = y};
  std::vector<at::Tensor> made;
  for (const std::int64_t id : ids) made.push_back(augmented->input(id, epoch));
  return {.x = at::stack(made).to(dtype), .y = y};
}

}  // namespace lockstep::train
