#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/launch/variables.h"

/// The network interfaces of this machine, and the variables by which ranks choose among them.
namespace lockstep::launch {

/// Read by Gloo and by NCCL.
inline constexpr const char* kGlooInterfaces = "GLOO_SOCKET_IFNAME";
inline constexpr const char* kNcclInterfaces = "NCCL_SOCKET_IFNAME";

/// The variables that ranks read which train on `device`: on a GPU, they use Gloo for what stays on the host.
std::vector<const char*> interface_variables_of(const std::string& device);

/// The interfaces that a value of one of the variables asks for.
struct InterfaceChoice {
  std::vector<std::string> names;
  bool excludes = false;  ///< all interfaces but these
  bool exact = true;      ///< whole names, else prefixes
  bool each = true;       ///< every name must be there, else one of them

  bool operator==(const InterfaceChoice&) const = default;
};

/// GLOO_SOCKET_IFNAME is a list of whole names, separated by commas, and Gloo joins all of them. NCCL_SOCKET_IFNAME is
/// a list of prefixes, of whole names after "=", and excludes those after "^"; NCCL takes what it finds. A port after
/// ":" is not looked at. Both ignore a value of less than two characters: then there are no names.
/// *Source*: torch 2.11, ProcessGroupGloo::Options::create_default; NCCL 2.28, docs, env.html, NCCL_SOCKET_IFNAME, and
/// misc/socket.cc, ncclFindInterfaces.
InterfaceChoice parse_interface_choice(const std::string& variable, const std::string& value);

/// Interfaces with an IP address, which Gloo and NCCL can use. *Throws*: ResourceError.
std::set<std::string> interfaces_with_address();

/// *Throws*: InputError if one of the variables is set and its choice finds nothing among `interfaces`.
void require_interfaces(const Environment& environment, const std::vector<const char*>& variables,
                        const std::set<std::string>& interfaces);

}  // namespace lockstep::launch
