#include "harness/train/model/model.h"

#include <ATen/ATen.h>
#include <c10/util/ArrayRef.h>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) \
  std::shared_ptr<Model> make_##name##_model(const Json& options, const ModelContext& context);
#include "kinds/model.inc"
#undef LOCKSTEP_KIND

std::shared_ptr<Model> make_model(const recipe::ModelChoice& choice, const ModelContext& context) {
#define LOCKSTEP_KIND(name) \
  if (name_of(choice.kind) == #name) return make_##name##_model(choice.options, context);
#include "kinds/model.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no model of kind " + text_of(choice.kind)});
}

namespace {

[[noreturn]] void refuse(const std::string& model, const ModelContext& context, const std::string& expected) {
  throw InputError({.what = "the data do not fit the model " + model,
                    .where = "train.data",
                    .expected = expected,
                    .actual = std::string(context.tokens ? "tokens" : "numbers") + " of shape " +
                              c10::str(c10::IntArrayRef(context.sample)),
                    .next = "choose data and model that go together"});
}

}  // namespace

void convert(Model& model, at::ScalarType to, at::Device device) {
  std::vector<at::Tensor> tensors = model.parameters();
  const std::vector<at::Tensor> buffers = model.buffers();
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  for (const at::Tensor& tensor : tensors) {
    const at::ScalarType type = tensor.is_floating_point() ? to : tensor.scalar_type();
    if (tensor.scalar_type() != type || tensor.device() != device) tensor.set_data(tensor.detach().to(device, type));
  }
}

at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& input) {
  return at::linear(input, layer->weight, layer->bias);
}

void require_images(const std::string& model, const ModelContext& context, std::int64_t smallest) {
  if (!context.tokens && context.sample.size() == 3 && context.sample[1] >= smallest && context.sample[2] >= smallest)
    return;
  refuse(
      model, context,
      "images of " + std::to_string(smallest) + "x" + std::to_string(smallest) + " or more: [channels, height, width]");
}

void require_tokens(const std::string& model, const ModelContext& context, bool wanted) {
  if (context.tokens != wanted) refuse(model, context, wanted ? "sequences of tokens" : "numbers");
}

}  // namespace lockstep::train
