// A rank that trains nothing: it does what its arguments say, in order.
//
//   @1 …              what follows is for rank 1 only, until "@all"
//   report STEP PHASE reports progress once
//   beat COUNT        reports progress COUNT times, one each 10 ms
//   sleep MS          waits
//   hang              waits for ever
//   spin MS           computes for so long, counted in its own processor time
//   turns COUNT MS    computes in so many threads, each for so long, one after the other
//   children COUNT MS computes in so many child processes, each for so long, one after the other
//   crowd COUNT       goes on with so many threads beside it that compute for ever
//   load MS           touches new memory for so long, as a program that is loaded does
//   pin               computes on the first of its processors alone
//   exit CODE         leaves
//   signal NUMBER     sends itself a signal
//   print TEXT        writes a line
//   address           writes where the C library lies
//   variable NAME     writes the value of an environment variable
//   mark NAME         creates the file NAME.<rank> with its process id in the run's directory
//   await NAME        waits until the file NAME exists in the run's directory
//   child | stray     starts a grandchild of the launcher that sleeps, in its group or in a session of its own,
//                     and marks its process id in child.<rank>
//   nest              as stray, and that one starts another stray
//   watch             dies with the launcher, through LOCKSTEP_SUPERVISOR_FD
//   accept COUNT      accepts connections on LOCKSTEP_LISTEN_FD
//   connect           connects to the master
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/attendance.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/place.h"
#include "harness/launch/progress.h"
#include "harness/launch/serve.h"

#include "tests/launch/pinned.h"

namespace {

using namespace lockstep::launch;

const std::filesystem::path kRunDirectory = "..";  // a rank starts in the work directory

[[noreturn]] void hang() {
  while (true) ::pause();
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void spin_ms(int ms) {
  const auto ran = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto end = ran() + std::chrono::milliseconds(ms);
  while (ran() < end) {
  }
}

void spin_in_turns(int count, int ms) {
  std::atomic<int> turn = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      for (int now = turn.load(); now != i; now = turn.load()) turn.wait(now);
      spin_ms(ms);
      ++turn;
      turn.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void spin_in_children(int count, int ms) {
  for (int i = 0; i < count; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      spin_ms(ms);
      ::_exit(0);
    }
    ::waitpid(pid, nullptr, 0);
  }
}

/// 32 pages every 10 ms.
void load_ms(int ms) {
  constexpr std::size_t kBytes = 32 * 4096;
  for (int i = 0; i < ms / 10; ++i) {
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 1, kBytes);
    ::munmap(memory, kBytes);
    sleep_ms(10);
  }
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(99);
}

void mark(const std::string& name) {
  const std::filesystem::path path = kRunDirectory / name;
  std::ofstream(path.string() + ".new") << ::getpid();
  std::filesystem::rename(path.string() + ".new", path);
}

void await(const std::string& name) {
  while (!std::filesystem::exists(kRunDirectory / name)) sleep_ms(2);
}

void start_grandchild(std::int64_t rank, bool own_session, bool nested) {
  const std::string name = std::string("child.") + std::to_string(rank);
  const pid_t pid = ::fork();
  require(pid >= 0, "fork");
  if (pid > 0) return await(name);
  if (own_session) ::setsid();
  if (nested) start_grandchild(rank + 1000, true, false);
  mark(name);
  hang();
}

Phase phase_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Phase::kDone); ++i) {
    if (name_of(static_cast<Phase>(i)) == name) return static_cast<Phase>(i);
  }
  std::exit(98);
}

void connect_to_master(const Place& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(place.master_port);
  require(::inet_pton(AF_INET, place.master_address.c_str(), &address.sin_addr) == 1, "inet_pton");
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  require(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "connect");
}

void accept_connections(const Place& place, int count) {
  require(place.listen_descriptor.has_value(), "no LOCKSTEP_LISTEN_FD");
  for (int i = 0; i < count; ++i) require(::accept(*place.listen_descriptor, nullptr, nullptr) >= 0, "accept");
}

/// The arguments that are meant for this rank, one after the other.
class Script {
 public:
  Script(int argc, char** argv, std::int64_t rank) {
    bool mine = true;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word[0] == '@') {
        mine = word == "@all" || word.substr(1) == std::to_string(rank);
      } else if (mine) {
        words_.push_back(word);
      }
    }
  }

  bool more() const { return !words_.empty(); }

  std::string word() {
    const std::string first = words_.at(0);
    words_.pop_front();
    return first;
  }

  int number() { return std::stoi(word()); }

 private:
  std::deque<std::string> words_;
};

void report(ProgressWriter& progress, Script& script) {
  const int step = script.number();
  progress.report(step, phase_named(script.word()));
}

void beat(ProgressWriter& progress, int count) {
  for (int step = 0; step < count; ++step) {
    progress.report(step, Phase::kForward);
    sleep_ms(10);
  }
}

void print(const std::string& text) {
  std::puts(text.c_str());
  std::fflush(stdout);
}

int be_rank(int argc, char** argv) {
  const Place place = place_of_this_process().place;
  std::optional<Attendance> attendance;
  if (!place.supervisor_process.empty()) {
    attendance.emplace(kRunDirectory, place.rank, place.run_id);
    die_with_process(place.supervisor_process);
  }
  ProgressWriter progress(progress_path(kRunDirectory, place.rank));
  Script script(argc, argv, place.rank);
  const std::map<std::string, std::function<void()>> actions = {
      {"report", [&] { report(progress, script); }},
      {"beat", [&] { beat(progress, script.number()); }},
      {"sleep", [&] { sleep_ms(script.number()); }},
      {"hang", hang},
      {"spin", [&] { spin_ms(script.number()); }},
      {"turns",
       [&] {
         const int count = script.number();
         spin_in_turns(count, script.number());
       }},
      {"children",
       [&] {
         const int count = script.number();
         spin_in_children(count, script.number());
       }},
      {"crowd",
       [&] {
         for (int count = script.number(); count > 0; --count) std::thread([] { spin_ms(1 << 30); }).detach();
       }},
      {"load", [&] { load_ms(script.number()); }},
      {"pin", pin_to_first_processor},
      {"exit", [&] { std::_Exit(script.number()); }},
      {"signal",
       [&] {
         const int number = script.number();
         ::signal(number, SIG_DFL);  // a sanitizer has a handler of its own
         ::raise(number);
       }},
      {"print", [&] { print(script.word()); }},
      {"variable", [&] { print(std::getenv(script.word().c_str())); }},
      {"address", [&] { print(std::to_string(reinterpret_cast<std::uintptr_t>(&::getpid))); }},
      {"mark", [&] { mark(script.word() + "." + std::to_string(place.rank)); }},
      {"await", [&] { await(script.word()); }},
      {"child", [&] { start_grandchild(place.rank, false, false); }},
      {"stray", [&] { start_grandchild(place.rank, true, false); }},
      {"nest", [&] { start_grandchild(place.rank, true, true); }},
      {"watch", [&] { die_with(place.supervisor_descriptor.value()); }},
      {"accept", [&] { accept_connections(place, script.number()); }},
      {"connect", [&] { connect_to_master(place); }}};
  while (script.more()) actions.at(script.word())();
  if (attendance) attendance->leave(0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool serves = asked_to_serve(argc, argv);
  if (serves && std::getenv("LOCKSTEP_TEST_LOADS_FOR_EVER") != nullptr) hang();
  if (serves) return serve(argc, argv, be_rank);
  return be_rank(argc, argv);
}
