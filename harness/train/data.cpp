#include "harness/train/data.h"

#include <ATen/ATen.h>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) Dataset make_##name##_data(const Json& options, const std::filesystem::path& file);
#include "kinds/data.inc"
#undef LOCKSTEP_KIND

Dataset make_data(const scenario::Choice& choice, const std::filesystem::path& file) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_data(choice.options, file);
#include "kinds/data.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no data of kind " + choice.kind});
}

std::optional<std::int64_t> Dataset::targets_per_sample() const {
  if (labels.eq(kNoLabel).any().item<bool>()) return std::nullopt;
  return labels.dim() > 1 ? labels.size(1) : 1;
}

}  // namespace lockstep::train
