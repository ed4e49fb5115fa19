#include "harness/launch/listener.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "harness/base/error.h"

namespace lockstep::launch {

namespace {

/// Lower ones are those of known services.
constexpr std::uint16_t kFirstPort = 20000;

/// The first port that the system gives to connections; as in Linux's documentation, where that cannot be read.
std::uint16_t first_port_of_connections() {
  std::uint16_t first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first;
}

bool can_listen(std::uint16_t port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  constexpr int kYes = 1;  // connections of an earlier store may still be closing
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof kYes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket.number(), 1) == 0;
}

}  // namespace

std::uint16_t free_port(std::uint64_t seed) {
  const std::uint16_t end = first_port_of_connections();
  const std::uint64_t count = end > kFirstPort ? end - kFirstPort : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + (seed + i) % count);
    if (can_listen(port)) return port;
  }
  throw ResourceError({.what = "no port is free for the ranks of a run",
                       .where = "ports from " + std::to_string(kFirstPort) + " to " + std::to_string(end)});
}

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

bool listens(const std::string& host, std::uint16_t port) {
  constexpr timeval kPatience{.tv_sec = 5, .tv_usec = 0};
  const addrinfo wanted{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return true;
  bool refused = found != nullptr;
  for (const addrinfo* one = found; one != nullptr && refused; one = one->ai_next) {
    const Descriptor socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (!socket) continue;
    ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);  // of connect, too
    refused = ::connect(socket.number(), one->ai_addr, one->ai_addrlen) != 0 && errno == ECONNREFUSED;
  }
  ::freeaddrinfo(found);
  return !refused;
}

}  // namespace lockstep::launch
