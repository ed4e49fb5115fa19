#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/recorder.h"
#include "harness/scenario/train_spec.h"
#include "harness/train/collective.h"
#include "harness/train/fault.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {

/// The gradients of one rank, from backward to update: seen before the reduction, after it, unscaled and clipped.
/// *Lifetime*: of `recorder`, `faults` and `collective`, and no longer than any backward pass of the parameters.
class Gradients {
 public:
  Gradients(const std::vector<NamedTensor>& parameters, const scenario::GradientSpec& spec, record::Recorder& recorder,
            const Faults& faults, Collective& collective);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  /// Forgets the last update's gradients.
  void begin();

  /// Whether the backward pass to come is the update's last: its local gradients are those that are reduced.
  void expect(bool last) { last_ = last; }

  /// Records the gradients, unscales and clips them. False when the update is to be skipped: some are not finite.
  bool finish();

 private:
  void watch(std::size_t i);
  void clip();
  void record_reduced();
  void record_again(const std::string& done);
  std::vector<NamedTensor> named() const;
  std::vector<at::Tensor> present() const;

  /// A parameter, and its gradient before the reduction as far as somebody wants it.
  struct Entry {
    NamedTensor parameter;
    std::optional<trace::Record> seen;
    at::Tensor kept;
  };

  scenario::GradientSpec spec_;
  record::Recorder& recorder_;
  const Faults& faults_;
  Collective& collective_;
  std::vector<Entry> entries_;
  bool last_ = true;
};

}  // namespace lockstep::train
