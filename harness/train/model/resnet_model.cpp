#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>

#include "harness/train/ddp/sync_batch_norm.h"
#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Makes the kind of normalization that the scenario chose.
struct Norms {
  bool synchronized = false;
  c10::intrusive_ptr<c10d::ProcessGroup> group;

  std::shared_ptr<BatchNorm> of(std::int64_t channels) const {
    return std::make_shared<BatchNorm>(channels, synchronized ? group : nullptr);
  }
};

/// Two 3×3 convolutions and a shortcut, which is a 1×1 convolution where the shape changes.
/// *Source*: He et al. 2016, figure 2; module names and order of torchvision.models.resnet.BasicBlock.
class Block : public torch::nn::Module {
 public:
  Block(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, const Norms& norms)
      : conv1_(register_module("conv1", convolution(inputs, outputs, 3, stride))),
        bn1_(register_module("bn1", norms.of(outputs))),
        conv2_(register_module("conv2", convolution(outputs, outputs, 3, 1))),
        bn2_(register_module("bn2", norms.of(outputs))) {
    if (stride == 1 && inputs == outputs) return;
    shortcut_conv_ = register_module("shortcut_conv", convolution(inputs, outputs, 1, stride));
    shortcut_bn_ = register_module("shortcut_bn", norms.of(outputs));
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = at::relu(bn1_->forward(conv1_->forward(input)));
    x = bn2_->forward(conv2_->forward(x));
    const at::Tensor shortcut = shortcut_bn_ ? shortcut_bn_->forward(shortcut_conv_->forward(input)) : input;
    return at::relu(x + shortcut);
  }

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  torch::nn::Conv2d shortcut_conv_{nullptr};
  std::shared_ptr<BatchNorm> shortcut_bn_;
};

/// A residual network: one block for each width, all but the first halve the image.
class ResNet : public Model {
 public:
  ResNet(const std::vector<std::int64_t>& widths, const ModelContext& context, const Norms& norms)
      : conv1_(register_module("conv1", convolution(context.sample[0], widths[0], 3, 1))),
        bn1_(register_module("bn1", norms.of(widths[0]))) {
    std::int64_t width = widths[0];
    for (std::size_t i = 0; i < widths.size(); ++i) {
      blocks_.push_back(register_module("layer" + std::to_string(i + 1),
                                        std::make_shared<Block>(width, widths[i], i == 0 ? 1 : 2, norms)));
      width = widths[i];
    }
    fc_ = register_module("fc", torch::nn::Linear(width, context.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = at::relu(bn1_->forward(conv1_->forward(input)));
    for (const auto& block : blocks_) x = block->forward(x);
    return linear(fc_, x.mean({2, 3}));
  }

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet_model(const Json& options, const ModelContext& context) {
  require_images("resnet", context, 1);
  return std::make_shared<ResNet>(
      options.at("widths").get<std::vector<std::int64_t>>(), context,
      Norms{recipe::kind_at<recipe::Norm>(options, "norm") == recipe::Norm::kSyncBatch, context.group});
}

}  // namespace lockstep::train
