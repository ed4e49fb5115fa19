// Digests and sketch of a large tensor, beside a plain read of the same memory.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/record/rank_recorder.h"
#include "harness/trace/additive_digest.h"
#include "harness/trace/digest.h"
#include "harness/trace/sketch.h"

namespace {

constexpr std::size_t kBytes = 256ULL << 20;

const std::vector<float>& tensor() {
  static const std::vector<float> elements = [] {
    std::vector<float> values(kBytes / sizeof(float));
    std::uint32_t state = 1;
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
    }
    return values;
  }();
  return elements;
}

std::span<const std::byte> bytes() { return std::as_bytes(std::span(tensor())); }

void plain_read(benchmark::State& state) {
  for (auto _ : state) {
    std::uint64_t words[8] = {};
    const std::byte* at = bytes().data();
    for (std::size_t i = 0; i < kBytes; i += sizeof words) {
      std::uint64_t block[8];
      std::memcpy(block, at + i, sizeof block);
      for (int k = 0; k < 8; ++k) words[k] ^= block[k];
    }
    benchmark::DoNotOptimize(words);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

void digest(benchmark::State& state) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(tensor().size())};
  for (auto _ : state)
    benchmark::DoNotOptimize(lockstep::trace::digest_of(lockstep::trace::DType::kFloat32, shape, bytes()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

void additive_digest(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(lockstep::trace::additive_digest_of(bytes()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

void sketch(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(lockstep::trace::sketch_of(lockstep::trace::DType::kFloat32, bytes()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

/// What one small tensor of a trace costs: digest, sketch and the record around them.
void observe_small(benchmark::State& state) {
  const std::int64_t shape[] = {state.range(0)};
  const lockstep::record::TensorView view{
      .data = tensor().data(), .dtype = lockstep::trace::DType::kFloat32, .shape = shape, .strides = {}};
  for (auto _ : state)
    benchmark::DoNotOptimize(lockstep::record::observe(lockstep::trace::Channel::kWeight, "conv1.weight", view));
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}

// Side by side, in turns: the ratio of the medians is what counts.
BENCHMARK(plain_read)->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
BENCHMARK(digest)->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
BENCHMARK(additive_digest)->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
BENCHMARK(sketch)->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
BENCHMARK(observe_small)->Arg(64)->Arg(1024)->Arg(16384);

}  // namespace
