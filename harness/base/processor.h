#pragma once

#include <string>

namespace lockstep {

/// Model of this machine's processor, as Linux says it in /proc/cpuinfo: "AMD EPYC 9B14"; "unknown" where it does not.
std::string cpu_model();

/// Kernels that LibTorch chooses on this machine, as at::get_cpu_capability() says: "DEFAULT", "AVX2" or "AVX512".
std::string cpu_capability();

}  // namespace lockstep
