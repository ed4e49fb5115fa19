#include <ATen/ATen.h>

#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

/// Multinomial logistic regression: convex, so that trainings which part do so by their gradients alone.
class Linear : public Model {
 public:
  Linear(std::int64_t inputs, const Json& options, std::int64_t classes)
      : fc_(register_module(
            "fc", torch::nn::Linear(torch::nn::LinearOptions(inputs, classes).bias(options.at("bias").get<bool>())))) {}

  at::Tensor forward(const at::Tensor& input) override { return settled(linear(fc_, input.flatten(1))); }

 private:
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<Model> make_linear_model(const Json& options, const ModelContext& context) {
  require_tokens("linear", context, false);
  return std::make_shared<Linear>(context.features(), options, context.classes);
}

}  // namespace lockstep::train
