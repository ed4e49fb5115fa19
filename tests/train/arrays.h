#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep::train {

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

/// An IDX file of unsigned bytes.
inline std::string test_idx(std::initializer_list<std::uint32_t> shape, const std::string& elements) {
  std::string file{0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(extent >> shift);
  }
  return file + elements;
}

/// A .npy file of format `version`.0, its elements from byte 128 on.
inline std::string test_npy(const std::string& dtype, const std::string& shape, const std::string& elements,
                            int version = 1) {
  std::string header = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }";
  const std::size_t begin = version == 1 ? 10 : 12;
  header.resize(128 - begin - 1, ' ');
  header += '\n';
  std::string file = "\x93NUMPY" + std::string{static_cast<char>(version), 0, static_cast<char>(header.size()), 0};
  if (version > 1) file.append(2, '\0');
  return file + header + elements;
}

}  // namespace lockstep::train
