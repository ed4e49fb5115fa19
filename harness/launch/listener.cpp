#include "harness/launch/listener.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "harness/base/error.h"

namespace lockstep::launch {

Listener listen_on_loopback(int backlog) {
  Listener listener{.socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const int socket = listener.socket.number();
  if (socket < 0 || ::bind(socket, generic, length) != 0 || ::listen(socket, backlog) != 0 ||
      ::getsockname(socket, generic, &length) != 0) {
    throw ResourceError({.what = std::string("cannot listen for the ranks of a run: ") + std::strerror(errno),
                         .where = "127.0.0.1, any port"});
  }
  listener.port = ntohs(address.sin_port);
  return listener;
}

}  // namespace lockstep::launch
