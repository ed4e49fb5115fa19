#include "harness/compare/detour.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "harness/base/text.h"

namespace lockstep::compare {
namespace {

using trace::DType;
using trace::StoredTensor;

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(float));
  return values;
}

float rounded_to(DType dtype, float value) {
  if (dtype == DType::kBFloat16) return static_cast<float>(Eigen::bfloat16(value));
  return static_cast<float>(Eigen::half(value));
}

/// One way to make a sum: whose numbers are rounded, and whether before they are weighed or after.
struct Way {
  Detour detour;
  float weight = 1;
  bool before = true;

  float addend(float own, std::size_t rank) const {
    const std::vector<std::size_t>& ranks = detour.ranks;
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) return own * weight;
    return before ? rounded_to(detour.through, own) * weight : rounded_to(detour.through, own * weight);
  }

  /// Within the bound on the order of the additions: 2γ·Σ|addend|.
  bool makes(const std::vector<float>& reduced, const std::vector<std::vector<float>>& own) const {
    const double gamma = (static_cast<double>(own.size()) + 1) * trace::unit_roundoff(DType::kFloat32);
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      double sum = 0, sizes = 0;
      for (std::size_t rank = 0; rank < own.size(); ++rank) {
        const double term = addend(own[rank][i], rank);
        sum += term;
        sizes += std::fabs(term);
      }
      if (!(std::fabs(reduced[i] - sum) <= 2 * gamma * sizes)) return false;
    }
    return true;
  }
};

/// The ranks' own numbers; nothing where they are not float32 of the shape of the reduced ones.
std::optional<std::vector<std::vector<float>>> addends_of(const std::vector<StoredTensor>& own,
                                                          const StoredTensor& reduced) {
  std::vector<std::vector<float>> addends;
  for (const StoredTensor& tensor : own) {
    if (tensor.dtype != DType::kFloat32 || tensor.shape != reduced.shape || reduced.dtype != DType::kFloat32)
      return std::nullopt;
    addends.push_back(floats_of(tensor));
  }
  if (own.empty()) return std::nullopt;
  return addends;
}

}  // namespace

std::string Detour::text() const {
  return "those of rank " + listed(ranks) + " rounded to " + std::string(trace::name_of(through));
}

std::optional<bool> is_reduction_of(const std::vector<StoredTensor>& own, const StoredTensor& reduced) {
  const auto addends = addends_of(own, reduced);
  if (!addends) return std::nullopt;
  const std::vector<float> held = floats_of(reduced);
  const Way mean{.detour = {}, .weight = 1 / static_cast<float>(own.size())}, sum{.detour = {}};
  return mean.makes(held, *addends) || sum.makes(held, *addends);
}

std::optional<Detour> detour_of(const std::vector<StoredTensor>& own, const StoredTensor& reduced) {
  const auto addends = addends_of(own, reduced);
  if (!addends) return std::nullopt;
  const std::vector<float> held = floats_of(reduced);
  std::vector<std::vector<std::size_t>> who{{}};  // no rank first: a plain sum needs no detour
  for (std::size_t rank = 0; rank < own.size(); ++rank) who.push_back({rank});
  who.emplace_back(own.size());
  std::iota(who.back().begin(), who.back().end(), 0);
  for (const std::vector<std::size_t>& ranks : who) {
    for (const DType through : {DType::kBFloat16, DType::kFloat16}) {
      for (const float weight : {1 / static_cast<float>(own.size()), 1.0F}) {
        for (const bool before : {true, false}) {
          const Way way{.detour = {.through = through, .ranks = ranks}, .weight = weight, .before = before};
          if (!way.makes(held, *addends)) continue;
          return ranks.empty() ? std::nullopt : std::optional(way.detour);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::compare
