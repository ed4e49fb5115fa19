#include "harness/train/loop/failure.h"

#include <new>
#include <stdexcept>
#include <system_error>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using launch::WorkerExit;

WorkerExit exit_for(const std::string& message) { return failure_of(std::runtime_error(message)).exit; }

TEST(Failure, BrokenConnectionsTellOfALostPeer) {
  for (const char* message :
       {"[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:9117",
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:5340: Connection reset by "
        "peer",
        "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
        "Timed out after 301 seconds waiting for clients. 1/2 clients joined.",
        "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv"}) {
    EXPECT_EQ(exit_for(message), WorkerExit::kPeerLost) << message;
  }
}

/// They stand in the same source files as those above.
TEST(Failure, TroubleOfTheMachineIsNoLostPeer) {
  for (const char* message : {"[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != "
                              "nullptr. Unable to find address for: nope",
                              "[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:186] rv != -1. "
                              "-1 vs -1. Too many open files",
                              "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."}) {
    EXPECT_EQ(exit_for(message), WorkerExit::kResource) << message;
  }
  EXPECT_EQ(exit_for("[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:400] nbytes == 8. 4 vs 8"),
            WorkerExit::kFailed);
  EXPECT_EQ(exit_for("gloo/rendezvous/context.cc: an assertion of TCPStore"), WorkerExit::kFailed);
}

TEST(Failure, LackOfMemoryIsTroubleOfTheMachine) {
  EXPECT_EQ(failure_of(std::bad_alloc()).exit, WorkerExit::kResource);
  EXPECT_EQ(failure_of(c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "full")).exit, WorkerExit::kResource);
  EXPECT_EQ(failure_of(std::system_error(EAGAIN, std::generic_category(), "thread")).exit, WorkerExit::kResource);
  EXPECT_EQ(failure_of(std::system_error(EINVAL, std::generic_category(), "thread")).exit, WorkerExit::kFailed);
}

TEST(Failure, LibTorchsBacktraceIsLeftOut) {
  const c10::Error error({__func__, __FILE__, __LINE__}, "shapes do not match");
  const Failure failure = failure_of(error);
  EXPECT_EQ(failure.exit, WorkerExit::kFailed);
  EXPECT_EQ(failure.message, "shapes do not match");
}

}  // namespace
}  // namespace lockstep::train
