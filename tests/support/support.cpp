#include "tests/support/support.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/patience.h"

namespace lockstep::test {
namespace {

std::string slurp(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

[[noreturn]] void become(const std::vector<std::string>& command, const std::filesystem::path& directory,
                         const std::filesystem::path& out, const std::filesystem::path& err) {
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(126);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

Scratch::Scratch() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (std::getenv("LOCKSTEP_TEST_KEEP") == nullptr) std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path Scratch::write(const std::string& name, const std::string& content) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

Outcome run_program(const std::vector<std::string>& command, double timeout_s, const std::filesystem::path& directory) {
  const Scratch scratch;
  const auto out = scratch.path() / "out", err = scratch.path() / "err";
  const pid_t child = ::fork();
  if (child == 0) become(command, directory, out, err);
  launch::Patience patience(std::chrono::steady_clock::now());
  int status = 0;
  bool late = false;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    patience.pass(std::chrono::steady_clock::now());
    if (!late && patience.is_over(launch::Patience::Seconds(timeout_s), {{.pid = child}})) {
      late = true;
      ADD_FAILURE() << command[0] << " did not end within " << timeout_s << " s";
      ::kill(-child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
          .out = slurp(out),
          .err = slurp(err)};
}

std::filesystem::path lockstep_program() { return LOCKSTEP_PROGRAM; }
std::filesystem::path worker_program() { return LOCKSTEP_WORKER_PROGRAM; }
std::filesystem::path source_root() { return LOCKSTEP_SOURCE_ROOT; }

std::filesystem::path parity_python() {
  const char* cache = std::getenv("LOCKSTEP_CACHE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path root = cache != nullptr
                                         ? std::filesystem::path(cache)
                                         : std::filesystem::path(home != nullptr ? home : "") / ".cache/lockstep";
  return root / "python-torch-2.11.0/bin/python";
}

}  // namespace lockstep::test
