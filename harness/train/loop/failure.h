#pragma once

#include <exception>
#include <string>

#include "harness/launch/worker_exit.h"

namespace lockstep::train {

/// Exit code and message of a rank for an exception that is not of base/error.h.
struct Failure {
  launch::WorkerExit exit = launch::WorkerExit::kFailed;
  std::string message;  ///< without LibTorch's C++ backtrace
};

/// kResource if memory, descriptors or the network interface are lacking. kPeerLost if a connection to another rank
/// broke or never succeeded. Else kFailed. It reads messages, because LibTorch and Gloo distinguish most of these only
/// there.
Failure failure_of(const std::exception& error);

}  // namespace lockstep::train
