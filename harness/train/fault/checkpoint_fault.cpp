// State that is changed on its way into a checkpoint and back.
#include <chrono>
#include <thread>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/fault/lasting.h"
#include "harness/train/loop/checkpoint.h"

namespace lockstep::train {
namespace {

class StateCast : public Fault {
 public:
  explicit StateCast(const Json& options) : dtype_(half_type(options)) {}
  void restored(const Restored& state) override {
    for (const NamedTensor& one : state.optimizer.state()) {
      if (one.tensor.dim() > 0) at::Tensor(one.tensor).copy_(one.tensor.to(dtype_));
    }
  }

 private:
  at::ScalarType dtype_;
};

class CounterOff : public Fault {
 public:
  explicit CounterOff(const Json& options) : by_(options.at("by").get<std::int64_t>()) {}
  void restored(const Restored& state) override { state.updates += by_; }

 private:
  std::int64_t by_;
};

class DrawAfterRestore : public Fault {
  void restored(const Restored&) override { at::empty({}, at::kLong).random_(); }
};

class PositionInSteps : public Fault {
  std::int64_t ranks_that_saved(std::int64_t, std::int64_t now) const override { return now; }
};

class EndedIteratorKept : public Fault {
  bool keeps_ended_iterator() const override { return true; }
};

class CheckpointCut : public LastingFault {
 public:
  explicit CheckpointCut(const Json& options)
      : file_(options.at("file").get<std::string>()), keep_(options.at("keep").get<double>()) {}
  void saved(const std::filesystem::path& folder) override {
    const std::filesystem::path file = folder / file_;
    if (!std::filesystem::exists(file))
      throw InputError({.what = "a fault names a file that the checkpoint does not have",
                        .where = "train.faults",
                        .expected = "a file of " + folder.string(),
                        .actual = file_});
    std::filesystem::resize_file(
        file, static_cast<std::uintmax_t>(keep_ * static_cast<double>(std::filesystem::file_size(file))));
  }

 private:
  std::string file_;
  double keep_;
};

/// Nobody waits for rank 0, which takes its time.
class CheckpointReadEarly : public Fault {
 public:
  explicit CheckpointReadEarly(const Json& options) : delay_(options.at("delay_ms").get<int>()) {}
  void updated(const Updated& rank) override {
    const std::filesystem::path file = rank.out / "checkpoint" / "between.safetensors";
    if (rank.collective.group()->getRank() == 0) {
      std::this_thread::sleep_for(delay_);
      make_directories(file.parent_path());
      write_weights(file, rank.weights);
    } else {
      copy_weights(read_weights(file), rank.weights);
    }
  }

 private:
  std::chrono::milliseconds delay_;
};

}  // namespace

LOCKSTEP_FAULT(position_in_steps, PositionInSteps)
LOCKSTEP_FAULT(ended_iterator_kept, EndedIteratorKept)
LOCKSTEP_FAULT(checkpoint_cut, CheckpointCut, options)
LOCKSTEP_FAULT(checkpoint_read_early, CheckpointReadEarly, options)
LOCKSTEP_FAULT(state_cast, StateCast, options)
LOCKSTEP_FAULT(counter_off, CounterOff, options)
LOCKSTEP_FAULT(draw_after_restore, DrawAfterRestore)

}  // namespace lockstep::train
