#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

/// A folder of its own, gone at the end of the test.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file below the folder, with the folders on the way, and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

/// What a program did.
struct Outcome {
  int exit_code = -1;  ///< 128 + signal when killed
  std::string out;
  std::string err;
};

/// Runs a program to its end; ends it when it could have run for `timeout_s`, which fails the test.
Outcome run_program(const std::vector<std::string>& command, double timeout_s = 300,
                    const std::filesystem::path& directory = "");

/// Programs of this build and files of this checkout.
std::filesystem::path lockstep_program();
std::filesystem::path worker_program();
std::filesystem::path source_root();

/// Python with torch 2.11.0, as ci/setup --tests installs it.
std::filesystem::path parity_python();

}  // namespace lockstep::test
