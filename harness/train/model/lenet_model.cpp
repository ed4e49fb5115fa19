#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>

#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, /*kernel_size=*/3).padding(1));
}

/// LeNet-5 (LeCun et al. 1998) with 3×3 kernels, ReLU and max-pooling, so that it fits images from 4×4 on.
class LeNet : public Model {
 public:
  explicit LeNet(const ModelContext& context)
      : conv1_(register_module("conv1", convolution(context.sample[0], 6))),
        conv2_(register_module("conv2", convolution(6, 16))),
        fc1_(register_module("fc1", torch::nn::Linear(16 * (context.sample[1] / 4) * (context.sample[2] / 4), 120))),
        fc2_(register_module("fc2", torch::nn::Linear(120, 84))),
        fc3_(register_module("fc3", torch::nn::Linear(84, context.classes))) {}

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = settled(at::max_pool2d(at::relu(conv1_->forward(input)), 2));
    x = settled(at::max_pool2d(at::relu(conv2_->forward(x)), 2));
    x = settled(at::relu(linear(fc1_, x.flatten(1))));
    return settled(linear(fc3_, settled(at::relu(linear(fc2_, x)))));
  }

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_, fc3_;
};

}  // namespace

std::shared_ptr<Model> make_lenet_model(const Json&, const ModelContext& context) {
  require_images("lenet", context, 4);
  return std::make_shared<LeNet>(context);
}

}  // namespace lockstep::train
