// lockstep-worker: one rank of one run. What to compute comes from a RunSpec, where it stands from the environment.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>
#include <unistd.h>

#include "harness/base/build_id.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/version.h"
#include "harness/launch/attendance.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/listener.h"
#include "harness/launch/place.h"
#include "harness/launch/place/arguments.h"
#include "harness/launch/place/torchrun.h"
#include "harness/launch/serve.h"
#include "harness/launch/worker_exit.h"
#include "harness/launch/worker_failure.h"
#include "harness/trace/reader.h"
#include "harness/train/collective/collectives_check.h"
#include "harness/train/device/device.h"
#include "harness/train/loop/failure.h"
#include "harness/train/loop/run_spec.h"
#include "harness/train/loop/trainer.h"

namespace {

using lockstep::launch::WorkerExit;

struct Arguments {
  std::filesystem::path spec;
  std::filesystem::path collectives;  ///< a request of train/collectives_check.h, instead of a RunSpec
  std::filesystem::path out;
  std::vector<std::string> place;  ///< what tells it, "rank=0" or "--local-rank=0"
  bool asks_place = false;
};

std::filesystem::path* path_named(const std::string& flag, Arguments& arguments) {
  if (flag == "--spec") return &arguments.spec;
  if (flag == "--collectives") return &arguments.collectives;
  return flag == "--out" ? &arguments.out : nullptr;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (lockstep::launch::is_place_argument(flag)) {
      arguments.place.push_back(flag);
    } else if (flag == "--place") {
      arguments.asks_place = true;
    } else if (std::filesystem::path* const path = path_named(flag, arguments);
               path != nullptr && path->empty() && i + 1 < argc) {
      *path = argv[++i];
    } else {
      understood = false;
    }
  }
  const bool has_one = arguments.spec.empty() != arguments.collectives.empty();
  const bool trains = has_one && !arguments.out.empty();
  const bool asks =
      arguments.asks_place && arguments.spec.empty() && arguments.collectives.empty() && arguments.out.empty();
  if (!understood || trains == asks) {
    throw lockstep::InputError({.what = "usage: lockstep-worker --spec run.json --out FOLDER [rank=R world_size=W] | "
                                        "--place | --free-port [SEED] | --build-id | --devices | --version",
                                .next = "lockstep run starts workers; to start one by hand, see docs/launchers.md"});
  }
  return arguments;
}

/// What the environment says of this rank, for a person who starts it by hand.
void print_place(const lockstep::launch::Resolution& found) {
  lockstep::Json variables = found.variables;
  lockstep::Json said = {{"launcher", found.launcher},
                         {"rank", found.place.rank},
                         {"local_rank", found.place.local_rank},
                         {"world_size", found.place.world_size},
                         {"node", found.place.node ? lockstep::Json(*found.place.node) : lockstep::Json()},
                         {"address", found.place.master_address},
                         {"port", found.place.master_port},
                         {"variables", std::move(variables)}};
  if (!found.place.store_file.empty()) said["file"] = found.place.store_file;
  lockstep::print_line(stdout, said.dump());
}

/// Memory that one step gives back is kept for the next: handing it to the kernel and faulting it in again costs more
/// than many a step's arithmetic.
void keep_memory() {
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
}

/// What cannot be written, to a rank that went away or to a file at its limit, is an error, as in Python, and no death:
/// who is killed looks guilty.
void fail_to_write_alive() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

/// torchrun starts all ranks again after a failure; each has written a trace before.
void forget_lives_before(const Arguments& arguments, const lockstep::launch::Place& place) {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (place.run_id.empty() || restarts == nullptr || std::string(restarts) == "0") return;
  std::filesystem::remove(arguments.out / lockstep::trace::file_name_of_rank(place.rank));
}

/// Trains. What it gives up for is written down beside its trace, too.
void train(const Arguments& arguments, const lockstep::launch::Place& place) {
  using lockstep::launch::failure_path;
  using lockstep::launch::write_failure;
  forget_lives_before(arguments, place);
  try {
    lockstep::train::train(lockstep::train::read_run_spec(arguments.spec), place, arguments.out);
  } catch (const lockstep::Error& error) {
    const lockstep::Problem& problem = error.problem();
    std::error_code unknown;
    write_failure(failure_path(arguments.out, place.rank),
                  {.what = problem.what,
                   .where = problem.where,
                   .damaged = dynamic_cast<const lockstep::DamagedFile*>(&error) != nullptr,
                   .missing = !problem.where.empty() && !std::filesystem::exists(problem.where, unknown)});
    throw;
  }
}

void report(const std::string& message) {
  lockstep::print_page(stderr, "lockstep-worker: " + message + "\n");
  lockstep::launch::tell_torchrun(lockstep::launch::whole_environment(), "lockstep-worker: " + message);
}

void report(const lockstep::Error& error) { report(std::string(error.what())); }

using lockstep::launch::Attendance;

WorkerExit run(int argc, char** argv, std::optional<Attendance>& attendance) {
  try {
    const Arguments arguments = parse(argc, argv);
    const lockstep::launch::Resolution found = lockstep::launch::place_of_this_process(arguments.place);
    const lockstep::launch::Place& place = found.place;
    if (arguments.asks_place) {
      print_place(found);
      return WorkerExit::kDone;
    }
    if (place.supervisor_descriptor) {
      lockstep::launch::die_with(*place.supervisor_descriptor);
    } else if (!place.supervisor_process.empty()) {
      attendance.emplace(arguments.out, place.rank, place.run_id);
      lockstep::launch::die_with_process(place.supervisor_process);
    }
    if (arguments.collectives.empty())
      train(arguments, place);
    else
      lockstep::train::check_collectives(arguments.collectives, place, arguments.out);
    return WorkerExit::kDone;
  } catch (const lockstep::InputError& error) {
    report(error);
    return WorkerExit::kRefused;
  } catch (const lockstep::DamagedFile& error) {
    report(error);
    return WorkerExit::kResource;
  } catch (const lockstep::ResourceError& error) {
    report(error);
    return WorkerExit::kResource;
  } catch (const lockstep::Unsupported& error) {
    report(error);
    return WorkerExit::kUnsupported;
  } catch (const lockstep::Error& error) {
    report(error);
    return lockstep::train::failure_of(error).exit;
  } catch (const std::exception& error) {
    const lockstep::train::Failure failure = lockstep::train::failure_of(error);
    report(failure.message);
    return failure.exit;
  }
}

/// For those who start a worker by hand; a seed that is no number is 0. Two schedulers on one machine count their jobs
/// alike, so the process counts, too.
int print_free_port(const std::string& seed) {
  constexpr std::uint64_t kStride = 7919;  // prime: neighbouring jobs lie far apart
  try {
    const std::uint64_t number = std::strtoull(seed.c_str(), nullptr, 10);
    const std::uint64_t mixed = number * kStride + static_cast<std::uint64_t>(::getpid());
    lockstep::print_line(stdout, std::to_string(lockstep::launch::free_port(mixed)));
    return 0;
  } catch (const lockstep::Error& error) {
    report(error);
    return static_cast<int>(WorkerExit::kResource);
  }
}

/// One rank, to its end.
[[noreturn]] int be_rank(int argc, char** argv) {
  keep_memory();
  fail_to_write_alive();
  std::optional<Attendance> attendance;
  const WorkerExit code = run(argc, argv, attendance);
  if (attendance) attendance->leave(static_cast<int>(code));
  std::fflush(nullptr);
  // LibTorch's static destructors take longer than many a training; everything of ours is closed.
  ::_exit(static_cast<int>(code));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--build-id") {
    lockstep::print_line(stdout, lockstep::build_id());
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "--version") {
    lockstep::print_line(stdout,
                         std::string("lockstep-worker ") + lockstep::version() + ", build " + lockstep::build_id());
    return 0;
  }
  if (argc >= 2 && argc <= 3 && std::string(argv[1]) == "--free-port") return print_free_port(argc == 3 ? argv[2] : "");
  if (argc == 2 && std::string(argv[1]) == "--devices") {
    lockstep::print_line(stdout, lockstep::train::devices_here().dump());
    return 0;
  }
  if (lockstep::launch::asked_to_serve(argc, argv)) return lockstep::launch::serve(argc, argv, be_rank);
  be_rank(argc, argv);
}
