#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

class Mlp : public Model {
 public:
  Mlp(const Json& options, const ModelContext& context) : dropout_(options.at("dropout").get<double>()) {
    std::int64_t width = context.features();
    for (const std::int64_t next : options.at("hidden").get<std::vector<std::int64_t>>()) {
      add_layer(width, next);
      width = next;
    }
    add_layer(width, context.classes);
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = input.flatten(1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = settled(at::relu(linear(layers_[i], x)));
      if (dropout_ > 0) x = settled(at::dropout(x, dropout_, is_training()));  // which multiplies what it keeps
    }
    return settled(linear(layers_.back(), x));
  }

 private:
  void add_layer(std::int64_t inputs, std::int64_t outputs) {
    const std::string name = "fc" + std::to_string(layers_.size() + 1);
    layers_.push_back(register_module(name, torch::nn::Linear(inputs, outputs)));
  }

  double dropout_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace

std::shared_ptr<Model> make_mlp_model(const Json& options, const ModelContext& context) {
  require_tokens("mlp", context, false);
  return std::make_shared<Mlp>(options, context);
}

}  // namespace lockstep::train
