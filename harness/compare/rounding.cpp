#include "harness/compare/rounding.h"

#include <algorithm>
#include <cmath>

#include "harness/base/text.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::DType;
using trace::Record;
using trace::RunTrace;
using trace::Step;

constexpr double kLambda = 8;
constexpr double kSketchError = 2;

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0x1p-11;
    case DType::kBFloat16: return 0x1p-8;
    case DType::kFloat32: return 0x1p-24;
    case DType::kFloat64: return 0x1p-53;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: return 0;
  }
  return 0;
}

double product(const std::vector<std::int64_t>& shape, std::size_t from) {
  double result = 1;
  for (std::size_t i = from; i < shape.size(); ++i) result *= static_cast<double>(shape[i]);
  return result;
}

/// Samples × positions that one step adds up over all ranks.
double batch_terms(const RunTrace& run, std::int64_t step) {
  double terms = 0;
  for (const trace::Trace& rank : run.ranks) {
    const Step* found = rank.find(step);
    if (found == nullptr) continue;
    for (const Record& record : found->records) {
      if (record.channel != Channel::kInput || !trace::is_floating(record.dtype) || record.shape.empty()) continue;
      terms += product(record.shape, 0) / (record.shape.size() > 1 ? static_cast<double>(record.shape[1]) : 1);
    }
    if (const Record* ids = found->find(Channel::kSamples, "ids"); ids != nullptr && terms == 0) terms += product(ids->shape, 0);
  }
  return terms;
}

/// Fan-in and fan-out of every layer: the lengths of the dot products on the way through the network and back.
double layer_terms(const Step& step) {
  double terms = 0;
  for (const Record& record : step.records) {
    if (record.channel == Channel::kWeight && record.shape.size() > 1) terms += product(record.shape, 1) + static_cast<double>(record.shape[0]);
  }
  return terms;
}

/// n of the bound.
double terms_of(const RunTrace& run, std::int64_t step) {
  double terms = static_cast<double>(run.world_size());
  const std::int64_t batch_step = std::max<std::int64_t>(step, 0);
  terms += batch_terms(run, batch_step);
  if (!run.ranks[0].steps.empty()) terms += layer_terms(run.ranks[0].steps.front());
  return terms;
}

/// Largest norm that went into a gradient: its own, or the root mean square of the local ones.
double gradient_scale(const RunTrace& run, std::int64_t step, const std::string& name) {
  double squares = 0, own = 0;
  for (const trace::Trace& rank : run.ranks) {
    const Step* found = rank.find(step);
    if (found == nullptr) continue;
    if (const Record* local = found->find(Channel::kGradientLocal, name)) squares += std::pow(local->norm.value_or(0), 2);
    if (const Record* reduced = found->find(Channel::kGradient, name)) own = std::max(own, reduced->norm.value_or(0));
  }
  return std::max(own, std::sqrt(squares / static_cast<double>(run.world_size())));
}

/// Length of the path of a parameter up to and including `step`: the sum of the norms of its updates.
double path_length(const RunTrace& run, std::int64_t step, const std::string& name) {
  double length = 0;
  const Record* before = nullptr;
  for (const Step& at : run.ranks[0].steps) {
    if (at.step > step) break;
    const Record* now = at.find(Channel::kWeight, name);
    if (before != nullptr && now != nullptr && before->sketch && now->sketch) {
      length += trace::estimated_norm(trace::difference(*now->sketch, *before->sketch));
    }
    before = now;
  }
  return length;
}

/// What rounding can do to one tensor of one run at one step.
double bound_of(const RunTrace& run, const Record& record, std::int64_t step) {
  const double u = unit_roundoff(record.dtype);
  const double growth = static_cast<double>(std::max<std::int64_t>(step, 0) + 1);
  const double root = std::sqrt(terms_of(run, step));
  double scale = record.norm.value_or(0);
  if (record.channel == Channel::kGradient) scale = std::max(scale, gradient_scale(run, step, record.name));
  if (record.channel == Channel::kWeight) {
    const double storage = std::sqrt(growth) * scale;
    return kLambda * u * (root * growth * path_length(run, step, record.name) + storage);
  }
  return kLambda * u * root * growth * scale;
}

}  // namespace

Relation within_rounding(const RunTrace& left, const RunTrace& right) {
  return [&left, &right](const Record& a, const Record& b, std::int64_t step, std::int64_t rank) -> std::optional<std::string> {
    const auto different = bitwise(a, b, step, rank);
    if (!different) return std::nullopt;
    const bool comparable = a.dtype == b.dtype && a.shape == b.shape && trace::is_floating(a.dtype);
    const bool is_bounded = a.channel != Channel::kLedger && a.norm && b.norm;
    if (!comparable || !is_bounded) return different;
    double distance = std::fabs(a.number.value_or(0) - b.number.value_or(0));
    if (!a.number && a.sketch && b.sketch) distance = trace::estimated_norm(trace::difference(*a.sketch, *b.sketch)) / kSketchError;
    if (!a.number && (!a.sketch || !b.sketch)) return "no sketches: " + *different;
    const double bound = std::max(bound_of(left, a, step), bound_of(right, b, step));
    if (distance <= bound) return std::nullopt;
    return *different + "; rounding explains " + to_decimal(bound) + " at most, the distance is " + to_decimal(distance);
  };
}

double update_bound(const RunTrace& run, const Record& weight) {
  const trace::Trace& trace = run.ranks[0];
  const Step* after = trace.find(0);
  const Record* record = after == nullptr ? nullptr : after->find(Channel::kWeight, weight.name);
  return record == nullptr ? 0 : kSketchError * bound_of(run, *record, 0);
}

}  // namespace lockstep::compare
