#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <sys/types.h>

namespace lockstep::test {

/// One Python for all tests of the program: it imports torch once, which takes seconds, and forks ranks from then on.
class PythonTwins {
 public:
  PythonTwins() = default;
  ~PythonTwins();
  PythonTwins(const PythonTwins&) = delete;
  PythonTwins& operator=(const PythonTwins&) = delete;

  /// Runs the cases of a file on as many ranks; they write below `out`. Returns "", or what Python says where it fails.
  std::string run(std::int64_t world_size, const std::filesystem::path& cases, const std::filesystem::path& out);

 private:
  void start();
  void stop();
  /// The answer to one line; "" where there is none.
  std::string ask(const std::string& line) const;

  pid_t pid_ = -1;
  int socket_ = -1;
};

/// The twins of this program.
PythonTwins& python_twins();

}  // namespace lockstep::test
