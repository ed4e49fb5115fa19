#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/trace/capture.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {

/// Logs the operators that this thread calls, outermost ones only, in the order of execution; changes no bit of what
/// they compute (measured).
///
/// Of a collective nothing is logged: what it brings shows as an input that nobody computed. Backward passes on the CPU
/// run on the thread that asks for them. One log at a time on a thread.
/// *Source*: at::RecordFunction, PyTorch 2.11.
class OperatorLog {
 public:
  /// `parameters`: of the model, to name what an operator works on.
  explicit OperatorLog(const std::vector<NamedTensor>& parameters);
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  /// What the training does from here on: "forward".
  void enter(std::string phase);

  const std::vector<trace::OperatorCall>& calls() const;

 private:
  struct State;
  static thread_local State* active;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
