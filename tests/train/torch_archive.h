#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <caffe2/serialize/inline_container.h>

namespace lockstep::train {

/// Writes what torch.save would: a ZIP archive of this pickle and these other records.
inline std::filesystem::path write_torch_file(const std::filesystem::path& file, const std::string& pickle,
                                              const std::map<std::string, std::string>& records = {}) {
  caffe2::serialize::PyTorchStreamWriter writer(file.string());
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  for (const auto& [name, content] : records) writer.writeRecord(name, content.data(), content.size());
  writer.writeEndOfFile();
  return file;
}

inline std::string repeated(std::size_t count, const std::string& part) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

inline std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

/// A pickle's beginning; it keeps None as values 0 to 3, so that others can replace them in any order.
inline const std::string kFourValues("\x80\2Nq\0q\1q\2q\3", 11);

/// A string, as a pickle has it.
inline std::string pickled_text(const std::string& text) {
  return "X" + little_endian(static_cast<std::uint32_t>(text.size())) + text;
}

/// Opcodes that call _rebuild_tensor_v2, kept as value 1, with arguments, kept as value 2, for a tensor in "data/0".
inline std::string tensor_of(const std::string& sizes, const std::string& strides) {
  const std::string zero("K\0", 2);
  return "ctorch._utils\n_rebuild_tensor_v2\nq\1((" + pickled_text("storage") + "ctorch\nFloatStorage\n" +
         pickled_text("0") + pickled_text("cpu") + zero + "tQ" + zero + sizes + strides + "\x89Ntq\2R";
}

}  // namespace lockstep::train
