#include <ATen/ATen.h>

#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

/// A network with a side path that takes part in one forward pass of `every`: between those, its parameters have no
/// gradient, which DDP must be told (find_unused_parameters).
class Branch : public Model {
 public:
  Branch(const Json& options, std::int64_t inputs, std::int64_t classes)
      : every_(options.at("every").get<std::int64_t>()),
        trunk_(register_module("trunk", torch::nn::Linear(inputs, options.at("width").get<std::int64_t>()))),
        side_(register_module("side", torch::nn::Linear(inputs, options.at("width").get<std::int64_t>()))),
        head_(register_module("head", torch::nn::Linear(options.at("width").get<std::int64_t>(), classes))),
        forwards_(register_buffer("forwards", at::zeros({}, at::kLong))) {}

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor flat = input.flatten(1);
    at::Tensor x = linear(trunk_, flat);
    if (forwards_.item<std::int64_t>() % every_ == 0) x = x + linear(side_, flat);
    forwards_.add_(1);
    return linear(head_, at::relu(x));
  }

 private:
  std::int64_t every_;
  torch::nn::Linear trunk_, side_, head_;
  at::Tensor forwards_;
};

}  // namespace

std::shared_ptr<Model> make_branch_model(const Json& options, const ModelContext& context) {
  require_tokens("branch", context, false);
  return std::make_shared<Branch>(options, context.features(), context.classes);
}

}  // namespace lockstep::train
