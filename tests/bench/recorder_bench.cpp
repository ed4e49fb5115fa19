// What recording costs the thread that trains: the call alone; digests are made on the recorder's own thread meanwhile.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <lockstep/recorder.h>

namespace {

/// A recorder whose trace goes away with it.
class Recording {
 public:
  explicit Recording(benchmark::State& state) {
    std::string pattern = (std::filesystem::temp_directory_path() / "recorder_bench.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    const std::string run = folder_ / "run";
    const lockstep_recorder_config config = {.size = sizeof config,
                                             .folder = run.c_str(),
                                             .rank = 0,
                                             .world_size = 1,
                                             .header = nullptr,
                                             .channels = nullptr,
                                             .channel_count = 0,
                                             .every = 0};
    if (lockstep_recorder_open(&config, &recorder_) != LOCKSTEP_OK)
      state.SkipWithError(lockstep_recorder_error(nullptr));
  }
  ~Recording() {
    lockstep_recorder_free(recorder_);
    std::filesystem::remove_all(folder_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  lockstep_recorder* get() const { return recorder_; }

 private:
  std::filesystem::path folder_;
  lockstep_recorder* recorder_ = nullptr;
};

/// `count` tensors of `elements` float32 each, as a model has them.
struct Model {
  Model(std::int64_t count, std::int64_t elements)
      : data(static_cast<std::size_t>(count * elements), 0.5F), shape{elements} {
    for (std::int64_t i = 0; i < count; ++i) {
      names.push_back("layer" + std::to_string(i) + ".weight");
      tensors.push_back({.dtype = LOCKSTEP_FLOAT32,
                         .dimensions = 1,
                         .shape = shape,
                         .strides = nullptr,
                         .data = data.data() + i * elements});
    }
    for (const std::string& name : names) {
      c_names.push_back(name.c_str());
      channels.push_back("weight");
    }
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::vector<float> data;
  const std::int64_t shape[1];
  std::vector<std::string> names;
  std::vector<const char*> c_names, channels;
  std::vector<lockstep_tensor> tensors;
};

/// One step of `range(0)` tensors with `range(1)` elements each. The recorder's own thread has time to finish before
/// the next step, as in a training.
template <typename Record>
void steps(benchmark::State& state, Record record) {
  using Clock = std::chrono::steady_clock;
  const Recording recording(state);
  const Model model(state.range(0), state.range(1));
  const std::int64_t bytes = state.range(0) * state.range(1) * 4;
  const auto time_to_finish = std::chrono::milliseconds(3) + std::chrono::nanoseconds(bytes + state.range(0) * 10'000);
  std::int64_t step = 0;
  for (auto _ : state) {
    lockstep_recorder_begin_step(recording.get(), step++);
    const auto begin = Clock::now();
    record(recording.get(), model);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    if (lockstep_recorder_end_step(recording.get()) != LOCKSTEP_OK)
      state.SkipWithError(lockstep_recorder_error(recording.get()));
    std::this_thread::sleep_for(time_to_finish);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * bytes);
}

void one_call(benchmark::State& state) {
  steps(state, [](lockstep_recorder* recorder, const Model& model) {
    lockstep_recorder_tensors(recorder, model.tensors.size(), model.channels.data(), model.c_names.data(),
                              model.tensors.data());
  });
}

void single_calls(benchmark::State& state) {
  steps(state, [](lockstep_recorder* recorder, const Model& model) {
    for (std::size_t i = 0; i < model.tensors.size(); ++i)
      lockstep_recorder_tensor(recorder, model.channels[i], model.c_names[i], &model.tensors[i]);
  });
}

void plain_copy(benchmark::State& state) {
  std::vector<float> to;
  steps(state, [&](lockstep_recorder*, const Model& model) {
    to.resize(model.data.size());
    std::memcpy(to.data(), model.data.data(), model.data.size() * sizeof(float));
    benchmark::DoNotOptimize(to.data());
  });
}

BENCHMARK(one_call)
    ->Args({256, 16})
    ->Args({1, 1 << 18})
    ->Args({64, 1 << 18})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(single_calls)->Args({256, 16})->Args({64, 1 << 18})->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(plain_copy)->Args({1, 1 << 18})->Args({64, 1 << 18})->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
