#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/channel.h"
#include "harness/trace/safetensors.h"

namespace lockstep::trace {

/// One call of an operator of LibTorch, as a rank made it.
struct OperatorCall {
  std::string name;                     ///< "aten::addmm"
  std::string phase;                    ///< of the step: "forward"
  std::string node;                     ///< of the autograd graph: "AddmmBackward0"; empty outside of backward
  std::vector<std::string> parameters;  ///< of the model, that it reads, or whose gradient it is about
  std::vector<std::string> inputs;      ///< in the operator's order: a tensor's digest, any other value as text
  std::vector<std::string> outputs;     ///< digests of what it returns or writes to

  bool operator==(const OperatorCall&) const = default;
};

/// Captures of one step beside a rank's trace: elements of tensors, and operator calls. `run`: the folder of the rank's
/// trace.
std::filesystem::path captured_tensors_path(const std::filesystem::path& run, std::int64_t step, std::int64_t rank);
std::filesystem::path captured_operators_path(const std::filesystem::path& run, std::int64_t step, std::int64_t rank);

/// Name of a record among captured tensors: "gradient/conv1.weight".
std::string captured_name(Channel channel, const std::string& name);

/// One JSON object a line, in the order of execution.
std::string to_lines(const std::vector<OperatorCall>& calls);

/// *Throws*: InputError when the file is missing, DamagedFile that names the line.
std::vector<OperatorCall> read_operators(const std::filesystem::path& path);

/// A tensor of a captured step; nothing where it was not captured. *Throws*: DamagedFile.
std::optional<StoredTensor> read_captured(const std::filesystem::path& run, std::int64_t step, std::int64_t rank,
                                          Channel channel, const std::string& name);

}  // namespace lockstep::trace
