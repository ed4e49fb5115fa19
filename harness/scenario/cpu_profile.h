#pragma once

#include <array>

namespace lockstep::scenario {

/// Instruction sets that the libraries which dispatch on the processor may use: values of `train.determinism.cpu`.
/// All three variables are needed: dropping one gives different bits on different processors (measured).
struct CpuProfile {
  const char* name;
  const char* aten;        ///< ATEN_CPU_CAPABILITY: pytorch.org/docs, "Environment variables for CPU"
  const char* onednn;      ///< ONEDNN_MAX_CPU_ISA: oneDNN developer guide, "CPU dispatcher control"
  const char* mkl;         ///< MKL_CBWR: Intel MKL developer guide, "Conditional numerical reproducibility"
  const char* capability;  ///< what at::get_cpu_capability() must then say
  const char* needs;       ///< what the processor must have
};

inline constexpr std::array<CpuProfile, 2> kCpuProfiles = {
    {{"portable", "avx2", "AVX2", "COMPATIBLE", "AVX2", "x86-64-v3 (AVX2, FMA)"},
     {"portable-v1", "default", "SSE41", "COMPATIBLE", "DEFAULT", "x86-64"}}};

}  // namespace lockstep::scenario
