#include "harness/trace/capture.h"

#include <sstream>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::trace {
namespace {

std::filesystem::path path_of(const std::filesystem::path& run, std::int64_t step, std::int64_t rank,
                              const std::string& kind) {
  return run / "capture" / std::to_string(step) / ("rank" + std::to_string(rank) + kind);
}

std::vector<std::string> texts_at(const Json& line, const char* key) {
  return line.at(key).get<std::vector<std::string>>();
}

}  // namespace

std::filesystem::path captured_tensors_path(const std::filesystem::path& run, std::int64_t step, std::int64_t rank) {
  return path_of(run, step, rank, ".safetensors");
}

std::filesystem::path captured_operators_path(const std::filesystem::path& run, std::int64_t step, std::int64_t rank) {
  return path_of(run, step, rank, ".operators.jsonl");
}

std::string captured_name(Channel channel, const std::string& name) {
  return std::string(name_of(channel)) + "/" + name;
}

std::string to_lines(const std::vector<OperatorCall>& calls) {
  std::string lines;
  for (const OperatorCall& call : calls) {
    const Json line = {{"name", call.name},     {"phase", call.phase}, {"node", call.node},
                       {"on", call.parameters}, {"in", call.inputs},   {"out", call.outputs}};
    lines += line.dump() + "\n";
  }
  return lines;
}

std::vector<OperatorCall> read_operators(const std::filesystem::path& path) {
  std::istringstream lines(read_file(path));
  std::vector<OperatorCall> calls;
  for (std::string line; std::getline(lines, line);) {
    try {
      const Json call = Json::parse(line);
      calls.push_back({.name = call.at("name").get<std::string>(),
                       .phase = call.at("phase").get<std::string>(),
                       .node = call.at("node").get<std::string>(),
                       .parameters = texts_at(call, "on"),
                       .inputs = texts_at(call, "in"),
                       .outputs = texts_at(call, "out")});
    } catch (const Json::exception& error) {
      throw DamagedFile({.what = std::string("damaged log of operators: ") + error.what(),
                         .where = path.string() + ", line " + std::to_string(calls.size() + 1)});
    }
  }
  return calls;
}

std::optional<StoredTensor> read_captured(const std::filesystem::path& run, std::int64_t step, std::int64_t rank,
                                          Channel channel, const std::string& name) {
  const std::filesystem::path path = captured_tensors_path(run, step, rank);
  if (!is_there(path)) return std::nullopt;
  for (StoredTensor& tensor : read_safetensors(path)) {
    if (tensor.name == captured_name(channel, name)) return std::move(tensor);
  }
  return std::nullopt;
}

}  // namespace lockstep::trace
