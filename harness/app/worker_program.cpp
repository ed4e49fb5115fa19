#include "harness/app/worker_program.h"

#include <set>
#include <string>

#include <glob.h>

#include "harness/app/recording_request.h"
#include "harness/base/error.h"
#include "harness/launch/fork_server.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// lib64 is a link to lib in many a prefix.
std::set<fs::path> files_like(const fs::path& pattern) {
  std::set<fs::path> files;
  glob_t found{};
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) files.insert(fs::canonical(found.gl_pathv[i]));
  }
  ::globfree(&found);
  return files;
}

fs::path beside_this_program() { return fs::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker"; }

}  // namespace

bool has_worker() { return is_program(beside_this_program()); }

fs::path program_behind(const fs::path& command) {
  if (launch::is_binary(command)) return command;
  const std::set<fs::path> programs =
      files_like(command.parent_path() / "../lib*/python3*/*-packages/lockstep_worker/lockstep-worker");
  return programs.size() == 1 ? *programs.begin() : command;
}

fs::path find_worker(const fs::path& given) {
  const fs::path worker = given.empty() ? beside_this_program() : given;
  if (is_program(worker)) return fs::absolute(given.empty() ? program_behind(worker) : worker);
  throw InputError({.what = "the worker is missing",
                    .where = worker.string(),
                    .expected = "an executable lockstep-worker",
                    .next = given.empty() ? "build it (ci/build lockstep-worker), install the wheel lockstep-worker, "
                                            "or name one with --worker"
                                          : "check the path given with --worker"});
}

}  // namespace lockstep::app
