#include "harness/judge/launch_failure.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "harness/base/files.h"

namespace lockstep::judge {
namespace {

namespace fs = std::filesystem;

using launch::WorkerFailure;

/// How the recorder's report of an uncaught exception begins: "TYPE: MESSAGE (FILE:LINE)" follows.
constexpr std::string_view kEnded = "the script ended with ";

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// "TYPE: MESSAGE" of the exception that ended a spawned process, from the traceback that its parent quotes.
std::string_view quoted_exception(std::string_view text) {
  constexpr std::string_view kTraceback = "Traceback (most recent call last):\n";
  const std::size_t last = text.rfind(kTraceback);  // of a chain, the last is the uncaught one
  if (last == std::string_view::npos) return "";
  text.remove_prefix(last + kTraceback.size());
  while (text.starts_with(' ')) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

/// The message of the exception that ended the process; "" if it ended otherwise.
std::string_view message_of(const WorkerFailure& failure) {
  std::string_view text = failure.what;
  if (!text.starts_with(kEnded)) return "";
  text = text.substr(kEnded.size(), text.rfind(" (") - kEnded.size());
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (text.starts_with("ProcessRaisedException: ")) text = quoted_exception(text);  // of torch.multiprocessing
  const std::size_t type = text.find(": ");
  return type == std::string_view::npos ? "" : text.substr(type + 2);
}

/// libuv's words, or those of USE_LIBUV=0.
bool says_port_taken(std::string_view message) {
  return message.starts_with("The server socket has failed to listen on any local network address. ") &&
         (holds(message, "name: EADDRINUSE, ") || holds(message, "(errno: 98 - Address already in use)"));
}

/// Gloo quotes the name. NCCL does not, and finds no interface only where it is told which.
bool says_interface_unknown(std::string_view message, const std::string& nccl_interfaces) {
  const bool gloo = message.starts_with("[enforce fail at ") && holds(message, "/transport/tcp/device.cc:") &&
                    holds(message, "] ifa != nullptr. Unable to find address for: ");
  const bool nccl =
      message.starts_with("NCCL error in: ") && holds(message, "\nLast error:\nBootstrap : no socket interface found");
  return gloo || (nccl && !nccl_interfaces.empty());
}

/// The rank in "rank3.failure.json"; nothing in another name.
std::optional<std::int64_t> rank_in(const std::string& name) {
  constexpr std::string_view kBefore = "rank";
  if (!name.starts_with(kBefore)) return std::nullopt;
  std::int64_t rank = 0;
  const auto [rest, error] = std::from_chars(name.data() + kBefore.size(), name.data() + name.size(), rank);
  return error == std::errc() && std::string_view(rest) == ".failure.json" ? std::optional(rank) : std::nullopt;
}

std::string cause_of(const WorkerFailure& failure) {
  const std::string_view message = message_of(failure);
  if (says_port_taken(message)) return "launch.port_taken";
  return says_interface_unknown(message, failure.nccl_interfaces) ? "launch.interface_unknown" : "";
}

}  // namespace

std::vector<ToldFailure> failures_told_in(const fs::path& folder) {
  std::vector<ToldFailure> told;
  const auto add = [&](std::optional<std::int64_t> rank, const fs::path& file) {
    if (auto failure = launch::read_failure(file)) told.push_back({.rank = rank, .failure = *std::move(failure)});
  };
  for (const fs::path& file : entries_of(folder)) {
    if (const auto rank = rank_in(file.filename().string())) add(*rank, file);
  }
  add(std::nullopt, launch::command_failure_path(folder));
  return told;
}

std::optional<LaunchFailure> find_launch_failure(const std::vector<ToldFailure>& told) {
  const auto first = std::min_element(told.begin(), told.end(), [](const ToldFailure& a, const ToldFailure& b) {
    return a.failure.at_ns < b.failure.at_ns;
  });
  if (first == told.end()) return std::nullopt;
  const std::string cause = cause_of(first->failure);
  if (cause.empty()) return std::nullopt;
  const std::string who = first->rank ? "rank " + std::to_string(*first->rank) : "the command";
  std::vector<std::string> evidence = {who + ": " + std::string(message_of(first->failure))};
  if (!first->failure.nccl_interfaces.empty() && cause == "launch.interface_unknown")
    evidence.push_back(who + " had NCCL_SOCKET_IFNAME=" + first->failure.nccl_interfaces);
  return LaunchFailure{.suspect = {cause, evidence}, .rank = first->rank};
}

}  // namespace lockstep::judge
