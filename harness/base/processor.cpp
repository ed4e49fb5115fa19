#include "harness/base/processor.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>

namespace lockstep {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string cpu_capability() {
  // The same order as in LibTorch: what the variable says is believed.
  const char* const said = std::getenv("ATEN_CPU_CAPABILITY");
  static const std::map<std::string_view, const char*> kNames = {
      {"avx512", "AVX512"}, {"avx2", "AVX2"}, {"default", "DEFAULT"}};
  const auto named = kNames.find(said == nullptr ? "" : said);
  if (named != kNames.end()) return named->second;
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return avx512 ? "AVX512" : avx2 ? "AVX2" : "DEFAULT";
}

}  // namespace lockstep
