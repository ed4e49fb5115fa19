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

/// A string, as a pickle has it.
inline std::string pickled_text(const std::string& text) {
  return "X" + little_endian(static_cast<std::uint32_t>(text.size())) + text;
}

}  // namespace lockstep::train
