#include "harness/launch/interfaces.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <string_view>

#include <ifaddrs.h>
#include <sys/socket.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::launch {
namespace {

/// Both libraries take a shorter value for an unset one.
constexpr std::size_t kShortestValue = 2;

bool takes(const InterfaceChoice& choice, const std::string& name, const std::string& interface) {
  return choice.exact ? interface == name : interface.starts_with(name);
}

bool takes(const InterfaceChoice& choice, const std::string& interface) {
  const bool named = std::any_of(choice.names.begin(), choice.names.end(),
                                 [&](const std::string& name) { return takes(choice, name, interface); });
  return named != choice.excludes;
}

/// The first name that must be there and is not; the whole value if nothing is left to choose; "" if all is well.
std::string lacking(const InterfaceChoice& choice, const std::string& value, const std::set<std::string>& interfaces) {
  if (choice.names.empty()) return "";
  const auto is_there = [&](const std::string& name) {
    return std::any_of(interfaces.begin(), interfaces.end(),
                       [&](const std::string& one) { return takes(choice, name, one); });
  };
  if (choice.each) {
    const auto absent = std::find_if_not(choice.names.begin(), choice.names.end(), is_there);
    return absent == choice.names.end() ? "" : "'" + *absent + "'";
  }
  const bool any =
      std::any_of(interfaces.begin(), interfaces.end(), [&](const std::string& one) { return takes(choice, one); });
  return any ? "" : "'" + value + "'";
}

}  // namespace

std::vector<const char*> interface_variables_of(const std::string& device) {
  if (device == "cpu") return {kGlooInterfaces};
  return {kGlooInterfaces, kNcclInterfaces};
}

InterfaceChoice parse_interface_choice(const std::string& variable, const std::string& value) {
  const bool is_gloo = variable == kGlooInterfaces;
  InterfaceChoice choice{.exact = is_gloo, .each = is_gloo};
  if (value.size() < kShortestValue) return choice;
  std::string_view rest = value;
  if (!is_gloo) {
    choice.excludes = rest.starts_with('^');
    if (choice.excludes) rest.remove_prefix(1);
    choice.exact = rest.starts_with('=');
    if (choice.exact) rest.remove_prefix(1);
  }
  std::istringstream words{std::string(rest)};
  for (std::string word; std::getline(words, word, ',');) {
    if (!is_gloo) word.erase(std::min(word.find(':'), word.size()));
    if (is_gloo || !word.empty()) choice.names.push_back(word);
  }
  return choice;
}

std::set<std::string> interfaces_with_address() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    throw ResourceError({.what = std::string("the network interfaces cannot be listed: ") + std::strerror(errno)});
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  std::set<std::string> names;
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) names.insert(one->ifa_name);
  }
  return names;
}

void require_interfaces(const Environment& environment, const std::vector<const char*>& variables,
                        const std::set<std::string>& interfaces) {
  for (const char* variable : variables) {
    const auto set = environment.find(variable);
    if (set == environment.end()) continue;
    const InterfaceChoice choice = parse_interface_choice(variable, set->second);
    const std::string name = lacking(choice, set->second, interfaces);
    if (name.empty()) continue;
    throw InputError(
        {.what = std::string(variable) +
                 (choice.excludes ? " leaves no interface" : " names no interface of this machine") + ": " + name,
         .where = "environment variable " + environment_entry(variable, set->second),
         .expected = std::string(choice.excludes ? "at least one left"
                                 : choice.each   ? "each"
                                                 : "at least one") +
                     " of the interfaces with an address: " + join({interfaces.begin(), interfaces.end()}, ", "),
         .next = "correct it, or unset it"});
  }
}

}  // namespace lockstep::launch
