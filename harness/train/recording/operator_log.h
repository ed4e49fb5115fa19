#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/trace/capture.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Logs the outermost operators that this thread calls, in the order of execution. It does not change their results
/// (measured).
///
/// Collectives are not logged; their results appear as inputs that no operator computed. Backward passes on the CPU run
/// on the calling thread. A thread can have one log at a time.
/// *Source*: at::RecordFunction, PyTorch 2.11.
class OperatorLog {
 public:
  /// `parameters`: of the model, to name an operator's inputs.
  explicit OperatorLog(const std::vector<NamedTensor>& parameters);
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  /// Sets the phase of the operators that follow: "forward".
  void enter(std::string phase);

  const std::vector<trace::OperatorCall>& calls() const;

 private:
  struct State;
  static thread_local State* active;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
