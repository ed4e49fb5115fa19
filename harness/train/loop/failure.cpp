#include "harness/train/loop/failure.h"

#include <new>
#include <system_error>

#include <c10/util/Exception.h>

namespace lockstep::train {
namespace {

using launch::WorkerExit;

struct Sign {
  const char* text;
  WorkerExit exit;
};

/// The first that a message holds counts: who lacks a descriptor cannot keep a connection either.
/// *Source*: PyTorch 2.11, c10/core/CPUAllocator.cpp and torch/csrc/distributed/c10d/{TCPStore,TCPStoreBackend,socket}
/// .cpp; Gloo, gloo/transport/tcp/{device,pair,unbound_buffer}.cc. Never the path of a source file, which stands in the
/// message of every failed assertion of Gloo.
constexpr Sign kSigns[] = {{"can't allocate memory", WorkerExit::kResource},
                           {"not enough memory", WorkerExit::kResource},
                           {"Cannot allocate memory", WorkerExit::kResource},
                           {"Too many open files", WorkerExit::kResource},
                           {"No space left on device", WorkerExit::kResource},
                           {"Unable to find address for", WorkerExit::kResource},
                           {"Unable to find interface for", WorkerExit::kResource},
                           {"Connection closed by peer", WorkerExit::kPeerLost},
                           {"Connection reset by peer", WorkerExit::kPeerLost},
                           {"Connection was likely closed", WorkerExit::kPeerLost},
                           {"Connection refused", WorkerExit::kPeerLost},
                           {"Broken pipe", WorkerExit::kPeerLost},
                           {"recvValue failed", WorkerExit::kPeerLost},
                           {"recvValueWithTimeout failed", WorkerExit::kPeerLost},
                           {"sendBytes failed", WorkerExit::kPeerLost},
                           {"Timed out waiting", WorkerExit::kPeerLost},
                           {"waiting for clients", WorkerExit::kPeerLost},
                           {"wait timeout after", WorkerExit::kPeerLost},
                           {"timed out connecting", WorkerExit::kPeerLost},
                           {"The client socket has", WorkerExit::kPeerLost},
                           {"connectFullMesh failed", WorkerExit::kPeerLost},
                           {"Application timeout caused pair closure", WorkerExit::kPeerLost}};

bool says_that_the_machine_gave_out(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr) return false;
  for (const std::errc lacking : {std::errc::not_enough_memory, std::errc::resource_unavailable_try_again,
                                  std::errc::too_many_files_open, std::errc::too_many_files_open_in_system}) {
    if (system->code() == lacking) return true;
  }
  return false;
}

std::string message_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

}  // namespace

Failure failure_of(const std::exception& error) {
  Failure failure{.message = message_of(error)};
  if (says_that_the_machine_gave_out(error)) {
    failure.exit = WorkerExit::kResource;
    return failure;
  }
  for (const Sign& sign : kSigns) {
    if (failure.message.find(sign.text) == std::string::npos) continue;
    failure.exit = sign.exit;
    break;
  }
  return failure;
}

}  // namespace lockstep::train
