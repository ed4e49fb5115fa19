#include "harness/launch/fork_request.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <sys/socket.h>

namespace lockstep::launch {
namespace {

/// Log, report, and what a rank inherits: the lifeline, and rank 0's listener.
constexpr std::size_t kMostDescriptors = 16;

/// Far above what the kernel passes to a program.
constexpr std::uint64_t kLongestMessage = 64 << 20;

/// A list of texts, each behind its end mark; no text of a command holds one.
std::string packed(const ForkRequest& request) {
  std::string message;
  const auto add = [&](std::string_view text) { (message += text) += '\0'; };
  add(request.build);
  add(std::to_string(request.supervisor));
  add(request.directory);
  add(std::to_string(request.inherited.size()));
  for (const int number : request.inherited) add(std::to_string(number));
  add(std::to_string(request.arguments.size()));
  for (const std::string& argument : request.arguments) add(argument);
  for (const std::string& variable : request.environment) add(variable);
  return message;
}

class Unpacker {
 public:
  explicit Unpacker(std::string_view message) : rest_(message) {}

  bool done() const { return rest_.empty() || broken_; }
  bool broken() const { return broken_; }

  std::string text() {
    const std::size_t end = rest_.find('\0');
    if (end == std::string_view::npos) broken_ = true;
    if (broken_) return {};
    std::string found(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return found;
  }

  int number() {
    const std::string digits = text();
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) broken_ = true;
    return value;
  }

 private:
  std::string_view rest_;
  bool broken_ = false;
};

std::optional<ForkRequest> unpacked(std::string_view message) {
  Unpacker parts(message);
  ForkRequest request;
  request.build = parts.text();
  request.supervisor = parts.number();
  request.directory = parts.text();
  for (int left = parts.number(); left > 0 && !parts.broken(); --left) request.inherited.push_back(parts.number());
  for (int left = parts.number(); left > 0 && !parts.broken(); --left) request.arguments.push_back(parts.text());
  while (!parts.done()) request.environment.push_back(parts.text());
  return parts.broken() ? std::nullopt : std::optional(std::move(request));
}

bool send_all(int socket, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(int socket, char* into, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::recv(socket, into, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    into += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

/// The length of a message, and the descriptors that travel with it.
struct Front {
  std::uint64_t length = 0;
  iovec bytes{.iov_base = &length, .iov_len = sizeof length};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
  msghdr header{};

  explicit Front(std::size_t control_size) {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control_size;
  }
  Front(const Front&) = delete;
};

}  // namespace

bool send_request(int socket, const ForkRequest& request, int log, int report) {
  std::vector<int> numbers = {log, report};
  numbers.insert(numbers.end(), request.inherited.begin(), request.inherited.end());
  if (numbers.size() > kMostDescriptors) return false;
  const std::size_t size = numbers.size() * sizeof(int);
  const std::string message = packed(request);
  Front front(CMSG_SPACE(size));
  front.length = message.size();
  cmsghdr* const control = CMSG_FIRSTHDR(&front.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(control), numbers.data(), size);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &front.header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof front.length && send_all(socket, message);
}

std::optional<ReceivedRequest> receive_request(int socket) {
  Front front(CMSG_SPACE(sizeof(int) * kMostDescriptors));
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &front.header, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  } while (count < 0 && errno == EINTR);
  std::vector<Descriptor> descriptors;
  const cmsghdr* const control = count > 0 ? CMSG_FIRSTHDR(&front.header) : nullptr;
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS) {
    std::vector<int> numbers((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(control), numbers.size() * sizeof(int));
    for (const int number : numbers) descriptors.emplace_back(number);
  }
  if (count != sizeof front.length || front.length > kLongestMessage || descriptors.size() < 2) return std::nullopt;
  std::string message(front.length, '\0');
  if (!receive_all(socket, message.data(), message.size())) return std::nullopt;
  std::optional<ForkRequest> request = unpacked(message);
  if (!request || request->inherited.size() != descriptors.size() - 2) return std::nullopt;
  ReceivedRequest received{.request = std::move(*request)};
  received.descriptors.log = std::move(descriptors[0]);
  received.descriptors.report = std::move(descriptors[1]);
  for (std::size_t i = 2; i < descriptors.size(); ++i)
    received.descriptors.inherited.push_back(std::move(descriptors[i]));
  return received;
}

}  // namespace lockstep::launch
