#include "tests/parity/python_twins.h"

#include <stdexcept>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/files.h"
#include "harness/base/json.h"

#include "tests/support/support.h"

namespace lockstep::test {

PythonTwins::~PythonTwins() { stop(); }

void PythonTwins::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no socket");
  const std::string python = parity_python(), script = source_root() / "tests/parity/twin.py";
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(ends[1], STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl(python.c_str(), python.c_str(), script.c_str(), "--serve", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  socket_ = ends[0];
}

void PythonTwins::stop() {
  if (pid_ < 0) return;
  ::close(socket_);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string PythonTwins::ask(const std::string& line) const {
  std::string answer;
  if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) return "";
  for (char byte = 0; ::recv(socket_, &byte, 1, 0) == 1;) {
    if (byte == '\n') return answer;
    answer += byte;
  }
  return "";
}

std::string PythonTwins::run(std::int64_t world_size, const std::filesystem::path& cases,
                             const std::filesystem::path& out) {
  if (pid_ < 0) start();
  const std::string answer = ask(Json{{"world_size", world_size}, {"cases", cases}, {"out", out}}.dump() + "\n");
  if (answer == "0") return "";
  if (!answer.empty()) return "Python's ranks failed:\n" + read_file(out.string() + ".log");
  stop();
  return parity_python().string() + " ended without an answer (ci/setup --tests installs Python's torch)";
}

PythonTwins& python_twins() {
  static PythonTwins twins;
  return twins;
}

}  // namespace lockstep::test
