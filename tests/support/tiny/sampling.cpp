#include "tests/support/tiny/sampling.h"

#include <algorithm>
#include <random>

#include "harness/recipe/sampler_rule.h"

namespace lockstep::test {
namespace {

constexpr std::uint64_t kMostSamples = 512;

std::vector<std::vector<float>> all_drawn(std::uint64_t seed, std::size_t count) {
  std::vector<std::vector<float>> all;
  for (std::uint64_t id = 0; id < kMostSamples; ++id) all.push_back(drawn(seed + id, count));
  return all;
}

std::size_t micro_batch_of(const scenario::Variant& variant) {
  return static_cast<std::size_t>(variant.train.batch.micro_size(variant.world_size));
}

}  // namespace

std::vector<float> drawn(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(generator() >> 55) / 256.0F - 1.0F;
  return values;
}

const std::vector<float>& input_of(std::int64_t id) {
  static const auto kAll = all_drawn(0, kInputs);
  return kAll.at(static_cast<std::size_t>(id));
}

const std::vector<float>& target_of(std::int64_t id) {
  static const auto kAll = all_drawn(1'000'000, kOutputs);
  return kAll.at(static_cast<std::size_t>(id));
}

std::vector<float> inputs_of(const std::vector<std::int64_t>& ids) {
  std::vector<float> x;
  for (const std::int64_t id : ids) {
    const std::vector<float>& row = input_of(id);
    x.insert(x.end(), row.begin(), row.end());
  }
  return x;
}

void Share::begin_epoch(const scenario::Variant& variant, std::uint64_t drawn, bool drops_last) {
  recipe::OrderOf which{.rank = rank, .epoch = ++epoch, .batches = batches};
  if (recipe::draws_from_shared_generator(variant.train.sampler)) which.seed = drawn;
  order = recipe::order_of(variant.train, variant.world_size, variant.train.data.options.at("size").get<std::int64_t>(),
                           which);
  if (drops_last) order.resize(order.size() / micro_batch_of(variant) * micro_batch_of(variant));
  position = 0;
}

std::vector<std::int64_t> Share::next(const scenario::Variant& variant) {
  const std::size_t end = std::min(position + micro_batch_of(variant), order.size());
  const std::vector<std::int64_t> ids(order.begin() + static_cast<std::ptrdiff_t>(position),
                                      order.begin() + static_cast<std::ptrdiff_t>(end));
  position = end;
  ++batches;
  return ids;
}

}  // namespace lockstep::test
