#include "harness/train/ddp/sync_batch_norm.h"

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

constexpr double kEps = 1e-5;
constexpr double kMomentum = 0.1;

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Everyone's `mine`. *Shape*: [...] → [ranks, ...].
at::Tensor gathered(const Group& group, const at::Tensor& mine) {
  std::vector<std::vector<at::Tensor>> all(1);
  for (int i = 0; i < group->getSize(); ++i) all[0].push_back(at::empty_like(mine));
  std::vector<at::Tensor> input{mine};
  group->allgather(all, input)->wait();
  return at::stack(all[0]);
}

at::Tensor summed(const Group& group, const at::Tensor& mine) {
  std::vector<at::Tensor> tensors{mine};
  group->allreduce(tensors)->wait();
  return tensors[0];
}

at::Tensor per_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

/// Mean and variance of the batch of all ranks.
struct Moments {
  at::Tensor mean, variance;  ///< *Shape*: [channels]; biased
  at::Tensor count;           ///< *Shape*: []
};

/// *Source*: Chan, Golub, LeVeque 1979: sums of squares are combined around the common mean.
Moments moments_of_all(const Group& group, const at::Tensor& input) {
  const at::Tensor flat = input.transpose(0, 1).flatten(1);
  const at::Tensor mean = flat.mean(1);
  const at::Tensor squares = (flat - mean.unsqueeze(1)).square().sum(1);
  const at::Tensor count = at::full({1}, static_cast<double>(flat.size(1)), mean.options());
  const at::Tensor all = gathered(group, at::cat({mean, squares, count}));
  const std::int64_t channels = mean.size(0);
  const at::Tensor means = all.narrow(1, 0, channels), counts = all.narrow(1, 2 * channels, 1);
  const at::Tensor total = counts.sum();
  const at::Tensor common = (means * counts).sum(0) / total;
  const at::Tensor deviation = (means - common).square() * counts;
  return {common, (all.narrow(1, channels, channels) + deviation).sum(0) / total, total};
}

/// Normalization with statistics of all ranks. *Source*: torch/nn/modules/_functions.py SyncBatchNorm, PyTorch 2.11.
class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const Moments& moments, const Group& group) {
    const at::Tensor scale = (moments.variance + kEps).rsqrt();
    context->save_for_backward({input, weight, moments.mean, scale, moments.count});
    context->saved_data["group"] = group;
    return (input - per_channel(moments.mean)) * per_channel(scale) * per_channel(weight) + per_channel(bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3], &count = saved[4];
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor centered = input - per_channel(mean);
    const at::Tensor sum = gradient.sum({0, 2, 3});
    const at::Tensor product = (gradient * centered).sum({0, 2, 3});
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    const at::Tensor all = summed(group, at::cat({sum, product})) / count;
    const at::Tensor mean_gradient = all.narrow(0, 0, sum.size(0));
    const at::Tensor mean_product = all.narrow(0, sum.size(0), sum.size(0)) * scale.square();
    const at::Tensor input_gradient =
        (gradient - per_channel(mean_gradient) - centered * per_channel(mean_product)) * per_channel(scale * weight);
    return {input_gradient, product * scale, sum, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels, Group group)
    : group_(std::move(group)),
      weight_(register_parameter("weight", at::ones({channels}))),
      bias_(register_parameter("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))),
      num_batches_tracked_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

/// One value has no variance. *Source*: torch.nn.functional._verify_batch_size, PyTorch 2.11.
void BatchNorm::require_variance(const at::Tensor& input) const {
  const bool alone = !group_ || group_->getSize() == 1;
  if (!is_training() || !alone || input.numel() / input.size(1) > 1) return;
  throw InputError({.what = "batch normalization would train on one value per channel",
                    .where = "train.model",
                    .expected = "more than one",
                    .actual = c10::str("an input of shape ", input.sizes()),
                    .next = "use larger batches or images, fewer widths, or train.batch.drop_last"});
}

at::Tensor BatchNorm::forward(const at::Tensor& input) {
  require_variance(input);
  if (is_training()) num_batches_tracked_.add_(1);
  if (!group_ || !is_training())
    return at::batch_norm(input, weight_, bias_, running_mean_, running_var_, is_training(), kMomentum, kEps,
                          /*cudnn_enabled=*/true);
  const at::Tensor exact =
      input.to(weight_.scalar_type());  // under autocast too, as PyTorch's kernels take their statistics
  Moments moments;
  {
    const at::NoGradGuard no_grad;
    moments = moments_of_all(group_, exact);
    const at::Tensor unbiased = moments.variance * (moments.count / (moments.count - 1));
    running_mean_.mul_(1 - kMomentum).add_(moments.mean, kMomentum);
    running_var_.mul_(1 - kMomentum).add_(unbiased, kMomentum);
  }
  return Normalize::apply(exact, weight_, bias_, moments, group_).to(input.scalar_type());
}

}  // namespace lockstep::train
