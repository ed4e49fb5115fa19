#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/launch/descriptor.h"

/// The request to a fork server, and its answer.
namespace lockstep::launch {

/// One rank to fork.
struct ForkRequest {
  std::string build;  ///< of lockstep; a server of another build refuses
  pid_t supervisor = 0;
  std::string directory;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< "NAME=value", complete
  std::vector<int> inherited;            ///< numbers that the descriptors must have in the rank
};

/// Descriptors that travel with a request.
struct ForkDescriptors {
  Descriptor log;     ///< stdout and stderr of the rank
  Descriptor report;  ///< gets the rank's pid_t once it runs; closed without it if the rank could not be started
  std::vector<Descriptor> inherited;
};

/// Sends a request. The receiver gets duplicates of the descriptors. *Returns*: whether the server took it.
bool send_request(int socket, const ForkRequest& request, int log, int report);

struct ReceivedRequest {
  ForkRequest request;
  ForkDescriptors descriptors;
};

/// Waits for the next request; nothing once the sender is gone or sends nonsense.
std::optional<ReceivedRequest> receive_request(int socket);

}  // namespace lockstep::launch
