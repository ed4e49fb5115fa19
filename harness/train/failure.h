#pragma once

#include <exception>
#include <string>

#include "harness/launch/worker_exit.h"

namespace lockstep::train {

/// What an exception that is none of base/error.h means for a rank.
struct Failure {
  launch::WorkerExit exit = launch::WorkerExit::kFailed;
  std::string message;  ///< without LibTorch's C++ backtrace
};

/// kResource when memory, descriptors or the network interface are lacking, kPeerLost when a connection to another rank
/// broke or never came about, else kFailed. LibTorch and Gloo tell most of these apart in their messages alone.
Failure failure_of(const std::exception& error);

}  // namespace lockstep::train
