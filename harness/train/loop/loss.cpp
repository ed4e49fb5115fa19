#include "harness/train/loop/loss.h"

#include <ATen/ATen.h>

#include "harness/train/data/data.h"

namespace lockstep::train {
namespace {

at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels, at::Reduction::Reduction reduction) {
  return at::cross_entropy_loss(logits.flatten(0, -2), labels.flatten(), /*weight=*/{}, reduction, kNoLabel);
}

}  // namespace

std::int64_t targets_in(const at::Tensor& labels) { return labels.ne(kNoLabel).sum().item<std::int64_t>(); }

at::Tensor mean_loss(const at::Tensor& logits, const at::Tensor& labels) {
  return loss(logits, labels, at::Reduction::Mean);
}

at::Tensor summed_loss(const at::Tensor& logits, const at::Tensor& labels) {
  return loss(logits, labels, at::Reduction::Sum);
}

at::Tensor losses_of_targets(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor flat = labels.flatten(), targets = flat.ne(kNoLabel).nonzero().squeeze(1);
  const at::Tensor of = logits.flatten(0, -2).index_select(0, targets).to(at::kDouble);
  return of.logsumexp(1) - of.gather(1, flat.index_select(0, targets).unsqueeze(1)).squeeze(1);
}

at::Tensor rounded_losses_of_targets(const at::Tensor& logits, const at::Tensor& labels) {
  if (logits.is_cpu()) return losses_of_targets(logits, labels);
  const at::Tensor all = at::nll_loss_nd(logits.flatten(0, -2).log_softmax(1, logits.scalar_type()), labels.flatten(),
                                         /*weight=*/{}, at::Reduction::None, kNoLabel);
  return all.index_select(0, labels.flatten().ne(kNoLabel).nonzero().squeeze(1)).to(at::kDouble);
}

}  // namespace lockstep::train
