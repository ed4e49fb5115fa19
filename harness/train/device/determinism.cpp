#include "harness/train/device/determinism.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <link.h>
#include <torch/version.h>

#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/base/processor.h"
#include "harness/base/text.h"
#include "harness/scenario/cpu_profile.h"

namespace lockstep::train {
namespace {

/// Variables that decide bits; the manifest holds those that are set.
constexpr std::array<const char*, 10> kNumericVariables = {
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",      "MKL_CBWR",
    "OMP_NUM_THREADS",     "MKL_NUM_THREADS",         "OMP_DYNAMIC",
    "MKL_DYNAMIC",         "CUBLAS_WORKSPACE_CONFIG", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "NVIDIA_TF32_OVERRIDE"};

void apply_cpu_profile(const std::string& name) {
  for (const scenario::CpuProfile& profile : scenario::kCpuProfiles) {
    if (name != profile.name) continue;
    setenv("ATEN_CPU_CAPABILITY", profile.aten, 1);
    setenv("ONEDNN_MAX_CPU_ISA", profile.onednn, 1);
    setenv("MKL_CBWR", profile.mkl, 1);
    const std::string capability = at::get_cpu_capability();
    if (capability == profile.capability) break;
    const bool able = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    if (!able)
      throw Unsupported({.what = "this processor lacks instructions that the CPU profile needs",
                         .where = "train.determinism.cpu = " + name,
                         .expected = profile.needs,
                         .actual = capability});
    throw InputError({.what = "determinism was set too late: LibTorch has already chosen its kernels",
                      .where = "train.determinism.cpu = " + name,
                      .expected = profile.capability,
                      .actual = capability,
                      .next = "call apply_determinism before the first tensor operation"});
  }
  // Each is one more dispatcher; with both off the profile held on more processors, at equal cost (measured).
  const bool native = name == "native";
  at::globalContext().setUserEnabledMkldnn(native);
  at::globalContext().setUserEnabledNNPACK(native);
}

/// The build id that the linker wrote into a loaded library (an ELF note); "" where there is none.
std::string build_id_of(const dl_phdr_info& library) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = library.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(library.dlpi_addr + header.p_vaddr);
    const char* const end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const char* const name = at + sizeof(note);
      const char* const content = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return to_hex(std::string_view(content, note.n_descsz));
      at = content + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return "";
}

/// Loaded libraries that compute, or decide how, with their build ids.
Json libraries() {
  Json found = Json::object();
  const auto visit = [](dl_phdr_info* library, std::size_t, void* into) {
    const std::string_view path = library->dlpi_name;
    const std::string name(path.substr(path.rfind('/') + 1));
    for (const char* wanted : {"libtorch", "libc10", "libgomp", "libiomp", "libmkl", "libopenblas", "libm.so",
                               "libc.so", "libcudart", "libcublas", "libcudnn", "libnccl"}) {
      if (name.starts_with(wanted)) (*static_cast<Json*>(into))[name] = build_id_of(*library);
    }
    return 0;
  };
  ::dl_iterate_phdr(visit, &found);
  return found;
}

/// Read off a product, since the mode is a register of each thread.
bool flushes_denormals() {
  volatile float smallest = std::numeric_limits<float>::min();
  return smallest * 0.5F == 0;
}

}  // namespace

bool has_compatible_mkl() {
  const char* const branch = std::getenv("MKL_CBWR");
  return branch != nullptr && std::string_view(branch) == "COMPATIBLE";
}

void apply_determinism(const recipe::DeterminismSpec& spec) {
  // A library that picks its own number of threads picks its own order of additions.
  setenv("OMP_DYNAMIC", "FALSE", 1);
  setenv("MKL_DYNAMIC", "FALSE", 1);
  // cuBLAS is deterministic only with a fixed workspace: docs.nvidia.com/cuda/cublas, "Results reproducibility".
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  apply_cpu_profile(spec.cpu);
  at::set_num_threads(spec.threads);
  if (at::get_num_threads() != spec.threads) {
    throw InputError({.what = "determinism was set too late: the number of threads is already fixed",
                      .where = "train.determinism.threads",
                      .expected = std::to_string(spec.threads),
                      .actual = std::to_string(at::get_num_threads())});
  }
  at::Context& context = at::globalContext();
  // pytorch.org/docs/stable/notes/randomness.html, section by section.
  context.setDeterministicAlgorithms(spec.algorithms == recipe::Algorithms::kDeterministic, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(spec.algorithms == recipe::Algorithms::kDeterministic);
  context.setDeterministicCuDNN(spec.cudnn_deterministic);
  context.setBenchmarkCuDNN(spec.cudnn_benchmark);
  // pytorch.org/docs/stable/notes/cuda.html, "TensorFloat-32".
  context.setAllowTF32CuBLAS(spec.tf32);
  context.setAllowTF32CuDNN(spec.tf32);
  if (!context.setFlushDenormal(spec.flush_denormal) && spec.flush_denormal)
    throw Unsupported({.what = "this processor does not flush denormal numbers to zero",
                       .where = "train.determinism.flush_denormal"});
}

Json environment_manifest() {
  const at::Context& context = at::globalContext();
  Json variables = Json::object();
  for (const char* name : kNumericVariables) {
    if (const char* value = std::getenv(name)) variables[name] = value;
  }
  return {{"build", build_id()},
          {"torch", TORCH_VERSION},
          {"compiler", __VERSION__},
          {"compiler_flags", build_flags()},
          {"cpu_model", cpu_model()},
          {"cpu_capability", at::get_cpu_capability()},
          {"threads", at::get_num_threads()},
          {"mkldnn", context.userEnabledMkldnn()},
          {"mkldnn_deterministic", context.deterministicMkldnn()},
          {"nnpack", context.userEnabledNNPACK()},
          {"deterministic_algorithms", context.deterministicAlgorithms()},
          {"deterministic_algorithms_warn_only", context.deterministicAlgorithmsWarnOnly()},
          {"fill_uninitialized_memory", context.deterministicFillUninitializedMemory()},
          {"cudnn", context.userEnabledCuDNN()},
          {"cudnn_deterministic", context.deterministicCuDNN()},
          {"cudnn_benchmark", context.benchmarkCuDNN()},
          {"tf32_cublas", context.allowTF32CuBLAS()},
          {"tf32_cudnn", context.allowTF32CuDNN()},
          {"flush_denormal", flushes_denormals()},
          {"libraries", libraries()},
          {"variables", variables}};
}

}  // namespace lockstep::train
