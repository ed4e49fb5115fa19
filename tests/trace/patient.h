#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::trace::test {

/// A file whose bytes change one at a time; rewriting it whole for each would wait for the disk.
class Patient {
 public:
  Patient(const std::filesystem::path& path, const std::string& content) : path_(path), content_(content) {
    std::ofstream(path, std::ios::binary) << content;
    file_.open(path, std::ios::binary | std::ios::in | std::ios::out);
  }
  void flip(std::size_t at, int bit) { put(at, static_cast<char>(content_[at] ^ (1 << bit))); }
  void heal(std::size_t at) { put(at, content_[at]); }
  const std::filesystem::path& path() const { return path_; }

 private:
  void put(std::size_t at, char byte) {
    file_.seekp(static_cast<std::streamoff>(at));
    file_.put(byte).flush();
  }

  std::filesystem::path path_;
  std::string content_;
  std::fstream file_;
};

}  // namespace lockstep::trace::test
