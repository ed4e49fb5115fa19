#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/recipe/train_spec.h"

#include "tests/support/tiny/sampling.h"

namespace lockstep::test {

template <typename Real>
using Tensors = std::map<std::string, std::vector<Real>>;  ///< by name, which is their order, too

/// The nearest number of bfloat16, by the bits that float32 has more.
inline float to_bfloat16(float value) {
  std::uint32_t bits = 0;
  std::copy_n(reinterpret_cast<const char*>(&value), sizeof bits, reinterpret_cast<char*>(&bits));
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::copy_n(reinterpret_cast<const char*>(&bits), sizeof bits, reinterpret_cast<char*>(&value));
  return value;
}

/// The nearest number of float16.
inline float to_float16(float value) {
  constexpr int kLeastExponent = -14, kBits = 10;
  if (value == 0) return 0;
  const float unit = std::exp2(static_cast<float>(std::max(std::ilogb(value), kLeastExponent) - kBits));
  return std::nearbyint(value / unit) * unit;
}

/// One linear layer; its parameters are "fc1.weight" and "fc1.bias".
struct Layer {
  std::string name;
  std::size_t inputs = 0, outputs = 0;
};

/// Layers with ReLU between them: as many as the recipe's model has hidden ones, and one more.
struct Network {
  std::vector<Layer> layers;
  bool in_bfloat16 = false;  ///< activations, and what goes back through them
  bool is_exact = false;     ///< what is summed lies on a grid
  double dropout = 0;

  explicit Network(const recipe::TrainSpec& spec)
      : in_bfloat16(spec.autocast == recipe::Autocast::kBf16 && spec.precision == recipe::Precision::kFloat32),
        is_exact(spec.exact),
        dropout(spec.model.options.value("dropout", 0.0)) {
    std::vector<std::size_t> widths{kInputs};
    for (const Json& hidden : spec.model.options.value("hidden", Json::array())) widths.push_back(hidden);
    widths.push_back(kOutputs);
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      layers.push_back({"fc" + std::to_string(i + 1), widths[i], widths[i + 1]});
  }

  std::vector<std::int64_t> shape_of(const std::string& parameter) const {
    for (const Layer& layer : layers) {
      const auto inputs = static_cast<std::int64_t>(layer.inputs), outputs = static_cast<std::int64_t>(layer.outputs);
      if (parameter == layer.name + ".bias") return {outputs};
      if (parameter == layer.name + ".weight") return {outputs, inputs};
    }
    return {static_cast<std::int64_t>(kInputs)};  // a running mean
  }

  template <typename Real>
  Tensors<Real> zeros() const {
    Tensors<Real> all;
    for (const Layer& layer : layers) {
      all[layer.name + ".bias"].resize(layer.outputs);
      all[layer.name + ".weight"].resize(layer.outputs * layer.inputs);
    }
    return all;
  }

  /// Weights as a seed draws them, in float32 whatever the precision.
  template <typename Real>
  Tensors<Real> initial(std::uint64_t seed, bool by_other_kernels) const {
    Tensors<Real> all = zeros<Real>();
    for (auto& [name, values] : all) {
      std::vector<float> own = drawn(1000 * ++seed, values.size());
      for (float& value : own) {
        value *= 0.7F;
        if (by_other_kernels) value = std::nextafter(value, 2.0F);
      }
      values.assign(own.begin(), own.end());
    }
    return all;
  }

  template <typename Real>
  Real stored(Real value) const {
    if constexpr (std::is_same_v<Real, float>) return in_bfloat16 ? to_bfloat16(value) : value;
    return value;
  }

  /// Adds a sample's gradient to `sum`, and returns its loss. `mask`: a seed for what dropout takes away.
  template <typename Real>
  Real backward(const Tensors<Real>& weights, const std::vector<Real>& x, const std::vector<float>& y,
                std::uint64_t mask, Tensors<Real>& sum) const {
    std::vector<std::vector<Real>> activations{x};
    for (std::size_t l = 0; l < layers.size(); ++l)
      activations.push_back(forward(l, weights, activations.back(), mask + 100 * l));
    std::vector<Real> delta = activations.back();
    Real loss = 0;
    for (std::size_t o = 0; o < kOutputs; ++o) {
      delta[o] -= static_cast<Real>(y[o]);
      loss += static_cast<Real>(0.5) * delta[o] * delta[o];
    }
    for (std::size_t l = layers.size(); l-- > 0;) {
      const Layer& layer = layers[l];
      std::vector<Real> before(layer.inputs);
      Real* const of_bias = sum.at(layer.name + ".bias").data();
      Real* of_weight = sum.at(layer.name + ".weight").data();
      const Real* weight = weights.at(layer.name + ".weight").data();
      const Real* const x_of_layer = activations[l].data();
      for (std::size_t o = 0; o < layer.outputs; ++o, of_weight += layer.inputs, weight += layer.inputs) {
        const Real error = delta[o];
        of_bias[o] += error;
        for (std::size_t i = 0; i < layer.inputs; ++i) {
          of_weight[i] += error * x_of_layer[i];
          before[i] += weight[i] * error;
        }
      }
      for (std::size_t i = 0; l > 0 && i < layer.inputs; ++i)
        before[i] = x_of_layer[i] > 0 ? stored(before[i] * kept_by_dropout<Real>()) : 0;
      delta = std::move(before);
    }
    return loss;
  }

 private:
  template <typename Real>
  Real kept_by_dropout() const {
    return static_cast<Real>(1 / (1 - dropout));
  }

  template <typename Real>
  std::vector<Real> forward(std::size_t l, const Tensors<Real>& weights, const std::vector<Real>& x,
                            std::uint64_t mask) const {
    const Layer& layer = layers[l];
    const bool is_last = l + 1 == layers.size();
    const Real* weight = weights.at(layer.name + ".weight").data();
    const Real* const bias = weights.at(layer.name + ".bias").data();
    const Real* const inputs = x.data();
    const std::vector<float> coins = dropout > 0 ? drawn(mask, layer.outputs) : std::vector<float>();
    std::vector<Real> result(layer.outputs);
    for (std::size_t o = 0; o < layer.outputs; ++o, weight += layer.inputs) {
      Real value = bias[o];
      for (std::size_t i = 0; i < layer.inputs; ++i) value += weight[i] * inputs[i];
      if (!is_last) value = std::max(value, Real{0}) * kept_by_dropout<Real>();
      if (!is_last && dropout > 0 && coins[o] < 2 * dropout - 1) value = 0;
      result[o] = stored(value);
    }
    return result;
  }
};

}  // namespace lockstep::test
