#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include "harness/base/error.h"
#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

struct Shape {
  std::int64_t width = 0, heads = 0;
  double dropout = 0;
};

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

/// Causal self-attention and a GELU layer, each behind a LayerNorm and beside a shortcut.
class TransformerBlock : public torch::nn::Module {
 public:
  explicit TransformerBlock(const Shape& shape)
      : shape_(shape),
        norm1_(register_module("norm1", layer_norm(shape.width))),
        qkv_(register_module("qkv", torch::nn::Linear(shape.width, 3 * shape.width))),
        out_(register_module("out", torch::nn::Linear(shape.width, shape.width))),
        norm2_(register_module("norm2", layer_norm(shape.width))),
        fc1_(register_module("fc1", torch::nn::Linear(shape.width, 4 * shape.width))),
        fc2_(register_module("fc2", torch::nn::Linear(4 * shape.width, shape.width))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + at::dropout(attention(norm1_->forward(input)), shape_.dropout, is_training());
    const at::Tensor hidden = linear(fc2_, at::gelu(linear(fc1_, norm2_->forward(x))));
    return x + at::dropout(hidden, shape_.dropout, is_training());
  }

 private:
  /// *Shape*: [batch, length, width] → the same.
  at::Tensor attention(const at::Tensor& input) {
    const std::int64_t batch = input.size(0), length = input.size(1);
    std::vector<at::Tensor> heads = linear(qkv_, input).chunk(3, -1);
    for (at::Tensor& part : heads) part = part.view({batch, length, shape_.heads, -1}).transpose(1, 2);
    const at::Tensor mixed = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], /*attn_mask=*/{},
                                                              /*dropout_p=*/0, /*is_causal=*/true);
    return linear(out_, mixed.transpose(1, 2).reshape({batch, length, shape_.width}));
  }

  Shape shape_;
  torch::nn::LayerNorm norm1_;
  torch::nn::Linear qkv_, out_;
  torch::nn::LayerNorm norm2_;
  torch::nn::Linear fc1_, fc2_;
};

/// Predicts the next token. The output weight is the embedding's (Press, Wolf 2017).
class Transformer : public Model {
 public:
  Transformer(std::int64_t layers, const Shape& shape, const ModelContext& context)
      : dropout_(shape.dropout),
        tokens_(register_module("tokens", torch::nn::Embedding(context.classes, shape.width))),
        positions_(register_module("positions", torch::nn::Embedding(context.sample[0], shape.width))) {
    for (std::int64_t i = 0; i < layers; ++i)
      blocks_.push_back(register_module("block" + std::to_string(i + 1), std::make_shared<TransformerBlock>(shape)));
    norm_ = register_module("norm", layer_norm(shape.width));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor places = at::arange(input.size(1), input.options());
    // One after the other, as Python does: the order decides in which order DDP's buckets get their gradients.
    const at::Tensor embedded = tokens_->forward(input);
    at::Tensor x = embedded + positions_->forward(places);
    x = at::dropout(x, dropout_, is_training());
    for (const auto& block : blocks_) x = block->forward(x);
    return at::linear(norm_->forward(x), tokens_->weight);
  }

 private:
  double dropout_;
  torch::nn::Embedding tokens_, positions_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_transformer_model(const Json& options, const ModelContext& context) {
  require_tokens("transformer", context, true);
  const Shape shape{options.at("width").get<std::int64_t>(), options.at("heads").get<std::int64_t>(),
                    options.at("dropout").get<double>()};
  if (shape.width % shape.heads != 0) {
    throw InputError({.what = "the width of the transformer does not divide into its heads",
                      .where = "train.model.width",
                      .expected = "a multiple of " + std::to_string(shape.heads),
                      .actual = std::to_string(shape.width)});
  }
  return std::make_shared<Transformer>(options.at("layers").get<std::int64_t>(), shape, context);
}

}  // namespace lockstep::train
