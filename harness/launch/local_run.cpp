#include "harness/launch/local_run.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/launch/memory.h"
#include "harness/launch/place.h"
#include "harness/launch/place/manual.h"

namespace lockstep::launch {
namespace {

/// With less free space than this, a rank cannot have written down why it failed. *Units*: bytes.
constexpr std::uintmax_t kLeastLogSpace = 8192;

using State = Sighting::State;
using Status = RunOutcome::Status;

std::filesystem::path command_log_path(const Job& job, std::size_t start) {
  return job.directory / ("command" + (start > 0 ? std::to_string(start) : "") + ".log");
}

/// Under another launcher, the log of the process that starts the rank, if such processes start equally many each.
std::filesystem::path log_path(const Job& job, std::size_t rank) {
  if (job.starter == Starter::kLauncher) return job.directory / ("rank" + std::to_string(rank) + ".log");
  if (job.starter == Starter::kCommand) return command_log_path(job, 0);
  return command_log_path(job, rank * job.starts.size() / static_cast<std::size_t>(job.world_size));
}

/// Unlike a counter alone, never the same again, not even in a later process with our number.
std::string run_id(LocalRun::Time start) {
  return std::to_string(::getpid()) + "-" + std::to_string(start.time_since_epoch().count());
}

/// Of ranks that may outlive us, the one that a process before us has chosen, if any.
std::string run_id(const Job& job, LocalRun::Time start) {
  if (!job.outlives_us) return run_id(start);
  const std::filesystem::path file = job.directory / kRunIdFile;
  if (is_there(file)) return read_file(file);
  const std::string id = run_id(start);
  replace_file(file, id);
  return id;
}

/// The last lines of a log, as much of them as a person reads.
std::string tail_of(const std::filesystem::path& log) {
  constexpr std::streamoff kBytes = 4096;
  constexpr int kLines = 20;
  std::ifstream stream(log, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  stream.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(stream.tellg()) - kBytes));
  std::string text(kBytes, '\0');
  stream.read(text.data(), kBytes);
  text.resize(static_cast<std::size_t>(stream.gcount()));
  std::size_t begin = text.empty() ? 0 : text.size() - 1;  // a newline at the very end closes the last line
  for (int lines = 0; begin > 0; --begin) {
    if (text[begin - 1] == '\n' && ++lines == kLines) break;
  }
  while (begin < text.size() && (text[begin] & 0xC0) == 0x80) ++begin;  // not into the middle of a UTF-8 character
  return text.substr(begin);
}

/// A machine without memory kills the wrong process, or stands still: then nothing ends.
void require_memory(const Job& job) {
  const std::uintmax_t needed = static_cast<std::uintmax_t>(job.world_size) * job.rank_memory;
  const std::uintmax_t available = available_memory();
  if (needed <= available) return;
  const auto mebibytes = [](std::uintmax_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  throw ResourceError({.what = std::to_string(job.world_size) + " ranks take at least " + mebibytes(needed) +
                               " of memory, and " + mebibytes(available) + " are free",
                       .where = "world_size " + std::to_string(job.world_size)});
}

}  // namespace

LocalRun::LocalRun(const Job& job, ForkServers& servers, const OrphanKeeper& orphans, const Lifeline& lifeline,
                   Time now)
    : job_(job),
      servers_(servers),
      orphans_(orphans),
      lifeline_(lifeline),
      adopted_(job.outlives_us && is_there(job.directory / kRunIdFile)),
      id_(run_id(job, now)),
      start_(now),
      last_look_(now),
      silence_(now),
      after_failure_(now) {
  ranks_.resize(static_cast<std::size_t>(job.world_size));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::int64_t delay = i < job.arrival_delay_ms.size() ? job.arrival_delay_ms[i] : 0;
    ranks_[i].due = now + std::chrono::milliseconds(delay);
    ranks_[i].exit = {.how = RankExit::How::kEnded, .log = log_path(job, i)};
    ranks_[i].sighting.by_command = job.starter == Starter::kCommand;
    ranks_[i].sighting.under_launcher = job.starter == Starter::kOther;
  }
}

void LocalRun::look(Time now) {
  ++round_;
  const auto elapsed = std::min<std::chrono::duration<double>>(now - last_look_, kMostPerLook);
  silence_.pass(now);
  after_failure_.pass(now);
  last_look_ = now;
  if (job_.starter != Starter::kLauncher) note_attendance(now);
  note_ends(now);
  note_progress();
  if (has_other_launcher()) note_others_end(now);
  note_halts(elapsed);
  note_failure(now);
  if (!ended_at_) judge(now);
  if (!failed_at_ && !ended_at_) start_ranks(now);  // last, since `now` is past when they run
  if (ended_at_ && now - *ended_at_ >= kLauncherPatience) {
    for (const OtherStarter& other : others_) other.process.kill_group();
  }
  if (ended_at_ && (all_gone() || now - *ended_at_ >= kEndingLimit)) close(now);
}

void LocalRun::interrupt(int signal, Time now) {
  const bool again = std::exchange(interrupted_, true);
  if (again && !job_.outlives_us) {  // its job must be cancelled
    for (const OtherStarter& other : others_) other.process.kill_group();
  }
  if (ended_at_) return;
  end({.status = Status::kInterrupted, .why = std::string("interrupted by SIG") + ::sigabbrev_np(signal)}, now);
}

Progress LocalRun::progress() const {
  const auto behind = [](const Rank& a, const Rank& b) {
    const Progress &left = a.sighting.progress, &right = b.sighting.progress;
    return std::pair(left.step, left.phase) < std::pair(right.step, right.phase);
  };
  return std::min_element(ranks_.begin(), ranks_.end(), behind)->sighting.progress;
}

void LocalRun::watch(std::vector<pollfd>& descriptors) const {
  for (const Rank& rank : ranks_) {
    if (!rank.process || rank.sighting.state != State::kRunning) continue;
    descriptors.push_back({.fd = rank.process->end_descriptor(), .events = POLLIN});
  }
  for (const Rank& rank : ranks_) {
    if (!rank.attendant || rank.own_end || rank.sighting.state != State::kRunning) continue;
    descriptors.push_back({.fd = rank.attendant->end_descriptor(), .events = POLLIN});
  }
  for (const OtherStarter& other : others_) {
    if (!other.exit) descriptors.push_back({.fd = other.process.end_descriptor(), .events = POLLIN});
  }
}

void LocalRun::start_ranks(Time now) {
  std::size_t rank = 0;
  try {
    if (round_ == 1) prepare();
    for (; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].sighting.state == State::kWaiting && ranks_[rank].due <= now) start(rank);
    }
  } catch (const ResourceError& error) {  // an outcome like any other: the other runs go on
    const Problem& problem = error.problem();
    end({.status = Status::kResource,
         .why = "rank " + std::to_string(rank) + " could not be started: " + problem.what + " (" + problem.where + ")"},
        now);
  }
}

void LocalRun::prepare() {
  require_memory(job_);
  make_directories(job_.directory / job_.work_directory);
  for (const auto& [origin, copy] : job_.copies) copy_folder(origin, copy);
  for (std::size_t i = 0; i < ranks_.size() && !adopted_; ++i) {
    std::error_code missing;
    std::filesystem::remove(progress_path(job_.directory, static_cast<std::int64_t>(i)), missing);
    std::filesystem::remove(failure_path(job_.directory, static_cast<std::int64_t>(i)), missing);
  }
  std::error_code missing;
  std::filesystem::remove(command_failure_path(job_.directory), missing);
  if (starts_itself() || has_other_launcher()) return;
  constexpr int kPerRank = 4;
  listener_ = listen_on_loopback(static_cast<int>(job_.world_size) * kPerRank);
  port_ = listener_->port;
}

Environment LocalRun::environment() const {
  Environment environment = inherited_environment();
  if (starts_itself() || has_other_launcher()) forget_place(environment);
  for (const auto& [name, value] : job_.environment) environment[name] = value;
  environment[kRunIdVariable] = id_;
  if (has_other_launcher())
    environment[kSupervisorProcessVariable] = job_.outlives_us ? kNobody : name_of_this_process();
  return environment;
}

void LocalRun::spawn(std::size_t rank, const Environment& environment, const std::vector<int>& inherited) {
  const Process::Command command{.program = std::filesystem::absolute(job_.command.front()),
                                 .arguments = job_.command,
                                 .environment = environment_block(environment, job_.reverse_environment),
                                 .directory = job_.directory / job_.work_directory,
                                 .log = ranks_[rank].exit.log,
                                 .inherited = inherited};
  std::optional<Process> forked = job_.fork_group ? servers_.fork(command, *job_.fork_group) : std::nullopt;
  ranks_[rank].process.emplace(forked ? std::move(*forked) : Process(command));
  silence_.renew();
}

/// All ranks begin and end with the command, as far as is seen from outside.
void LocalRun::start_command() {
  spawn(0, environment(), {});
  for (Rank& rank : ranks_) rank.sighting.state = State::kRunning;
}

void LocalRun::start_others() {
  for (const StartCommand& start : job_.starts) {
    Environment variables = environment();
    for (const auto& [name, value] : start.environment) variables[name] = value;
    others_.push_back({.process = Process({.program = start.words.front(),
                                           .arguments = start.words,
                                           .environment = environment_block(variables, job_.reverse_environment),
                                           .directory = job_.directory / job_.work_directory,
                                           .log = command_log_path(job_, others_.size()),
                                           .inherited = {}})});
  }
  for (Rank& rank : ranks_) rank.sighting.state = State::kRunning;
  silence_.renew();
}

void LocalRun::start(std::size_t rank) {
  if (starts_itself()) return start_command();
  if (has_other_launcher()) return start_others();
  Place place{.rank = static_cast<std::int64_t>(rank),
              .local_rank = static_cast<std::int64_t>(rank),
              .world_size = job_.world_size,
              .master_port = port_,
              .supervisor_descriptor = lifeline_.read_end(),
              .step_delay_ms = rank < job_.step_delay_ms.size() ? job_.step_delay_ms[rank] : 0};
  std::vector<int> inherited = {lifeline_.read_end()};
  if (rank == 0) inherited.push_back(place.listen_descriptor.emplace(listener_->socket.number()));
  Environment variables = environment();
  if (const auto own = job_.rank_environment.find(place.rank); own != job_.rank_environment.end()) {
    for (const auto& [name, value] : own->second) variables[name] = value;
  }
  for (const auto& [name, value] : variables_of(place)) variables[name] = value;
  spawn(rank, variables, inherited);
  ranks_[rank].sighting.state = State::kRunning;
  if (rank == 0) listener_.reset();
}

void LocalRun::note_ends(Time now) {
  for (Rank& rank : ranks_) {
    if (rank.sighting.state != State::kRunning || !rank.process) continue;
    const std::optional<Process::Exit> end = rank.process->poll();
    if (!end) continue;
    if (!starts_itself()) {
      note_end(rank, *end, now);
    } else {
      for (Rank& each : ranks_) {
        if (each.attendant) note_own_end(each);
        note_end(each, *end, now);
      }
    }
  }
}

void LocalRun::note_attendance(Time now) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.sighting.state != State::kRunning) continue;
    if (!rank.attendant) {
      rank.attendant = Attendant::find(job_.directory, static_cast<std::int64_t>(i), id_, rank.before);
      if (!rank.attendant) continue;
      silence_.renew();
      if (ended_at_) rank.attendant->kill();  // it began while the others were ended
    }
    if (starts_itself()) {
      note_own_end(rank);
    } else if (const std::optional<Process::Exit> end = rank.attendant->poll()) {
      note_end(rank, *end, now);
    }
  }
}

/// How a rank of a command ended. It decides nothing while the command runs: that may be no failure.
void LocalRun::note_own_end(Rank& rank) {
  const bool is_command = ranks_[0].process && rank.attendant->pid() == ranks_[0].process->pid();
  const auto end = rank.own_end || is_command || ended_at_ ? std::nullopt : rank.attendant->poll();
  if (!end) return;
  rank.own_end = {.state = end->signalled ? State::kSignalled : State::kExited,
                  .value = end->value,
                  .round = round_,
                  .is_program = true,
                  .under_launcher = true};
}

/// A command's exit code says that something failed; its ranks' ends say which of them began.
Judgement LocalRun::judge_command() const {
  std::vector<Sighting> own = sightings();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Progress progress = own[i].progress;
    own[i] = ranks_[i].own_end.value_or(Sighting{.state = State::kRunning});
    own[i].progress = progress;
    const bool is_unseen = own[i].state == State::kSignalled && own[i].value == 0;
    if (is_unseen) return judge_failure(sightings());
  }
  const auto failed_itself = [](const Sighting& rank) {
    return failed(rank) && !(rank.state == State::kSignalled && rank.value == SIGTERM);  // which launchers send
  };
  if (std::none_of(own.begin(), own.end(), failed_itself)) return judge_failure(sightings());
  return judge_failure(own);
}

bool LocalRun::others_ended() const {
  return std::all_of(others_.begin(), others_.end(), [](const OtherStarter& other) { return other.exit.has_value(); });
}

/// After the ranks: a launcher that ends last says nothing of them. One that is killed, or leaves ranks behind, ends
/// the run.
void LocalRun::note_others_end(Time now) {
  const bool ended_before = others_ended();  // else a rank may have ended since we asked
  for (OtherStarter& other : others_) {
    if (other.exit) continue;
    other.exit = other.process.poll();
    if (!other.exit || ended_at_) continue;
    silence_.renew();
    const bool rank_failed = std::any_of(ranks_.begin(), ranks_.end(), [this](const Rank& rank) {
      return failed(rank.sighting) && rank.sighting.round < round_;
    });
    const bool is_rank = std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.attendant && rank.attendant->pid() == other.process.pid();
    });
    if (other.exit->signalled && !is_rank && !failed_at_ && !rank_failed)
      end({.status = Status::kFailed,
           .why = "the launcher (" + job_.starts.front().words.front() + ") was killed by " +
                  name_of_signal(other.exit->value) + " " + place_of(progress())},
          now);
  }
  if (others_.empty() || !ended_before || ended_at_ || failed_at_) return;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.sighting.state != State::kRunning) continue;
    const Process::Exit& last = *others_.back().exit;
    const bool none_began =
        std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& one) { return one.attendant.has_value(); });
    const std::string how = " ended with code " + std::to_string(last.value) + ", but rank " + std::to_string(i);
    end({.status = none_began ? Status::kResource : Status::kFailed,  // no rank had a part in it
         .culprit = rank.attendant ? std::optional(static_cast<std::int64_t>(i)) : std::nullopt,
         .why = "the launcher (" + job_.starts.front().words.front() + ")" + how +
                (rank.attendant ? " had not: it was " + place_of(rank.sighting.progress) : " never began")},
        now);
    return;
  }
}

void LocalRun::note_end(Rank& rank, Process::Exit end, Time now) {
  rank.exit.after_s = seconds_since_start(now);
  rank.sighting.round = round_;
  rank.sighting.value = end.value;
  rank.sighting.state = end.signalled ? State::kSignalled : State::kExited;
  const bool by_us = ended_at_ && end.signalled && end.value == SIGKILL;
  if (!by_us) {
    rank.exit.how = end.signalled ? RankExit::How::kSignalled : RankExit::How::kExited;
    (end.signalled ? rank.exit.signal : rank.exit.code) = end.value;
  }
  silence_.renew();
}

void LocalRun::note_progress() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const bool may_have_changed = rank.sighting.state == State::kRunning || rank.sighting.round == round_;
    if (!may_have_changed) continue;
    const Progress progress = read_progress(progress_path(job_.directory, static_cast<std::int64_t>(i)));
    rank.moved = progress.beats != rank.sighting.progress.beats;
    if (rank.moved) silence_.renew();
    rank.sighting.progress = progress;
    rank.exit.progress = progress;
  }
}

/// After the progress: only a rank that gave no sign of life is asked. Who debugs a rank has stopped our clock, too.
void LocalRun::note_halts(std::chrono::duration<double> elapsed) {
  for (Rank& rank : ranks_) {
    const bool silent = rank.sighting.state == State::kRunning && !rank.moved;
    const Process::Halt halt = silent && rank.process     ? rank.process->halt()
                               : silent && rank.attendant ? rank.attendant->halt()
                                                          : Process::Halt::kNone;
    rank.stopped = halt == Process::Halt::kStopped ? rank.stopped + elapsed : std::chrono::duration<double>(0);
    if (halt == Process::Halt::kDebugged) silence_.renew();
  }
}

/// After the progress, which tells a rank that is done from one that merely says so.
void LocalRun::note_failure(Time now) {
  if (failed_at_) return;
  if (std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return failed(rank.sighting); })) return;
  failed_at_ = now;
  after_failure_.renew();
}

/// A program that never began has said so in its log alone.
void LocalRun::note_linker_errors() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Sighting& seen = ranks_[i].sighting;
    if (seen.state == State::kExited && seen.value != 0 && seen.progress.beats == 0)
      seen.not_loaded = linker_error_in(tail_of(log_path(job_, i)));
  }
}

/// Whether the launcher will start all ranks again after this failure. It does not see a rank that ends with 0.
bool LocalRun::may_start_again() const {
  if (others_ended() || static_cast<std::int64_t>(restarts_.size()) >= job_.restarts) return false;
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return failed(rank.sighting) && !(rank.sighting.state == State::kExited && rank.sighting.value == 0);
  });
}

/// After the end of all ranks. Those that follow attend anew, and write their files anew.
void LocalRun::start_again() {
  restarts_.push_back(judge_failure(sightings()).why);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (!rank.attendant)
      rank.attendant = Attendant::find(job_.directory, static_cast<std::int64_t>(i), id_, rank.before);
    if (rank.attendant && rank.attendant->poll()) rank.before = rank.attendant->process();
    rank.attendant.reset();
    rank.sighting = {.state = State::kRunning, .under_launcher = true};
    rank.exit = {.how = RankExit::How::kEnded, .log = rank.exit.log};
    rank.moved = false;
    rank.stopped = {};
  }
  failed_at_.reset();
  silence_.renew();
}

std::vector<Sighting> LocalRun::sightings() const {
  std::vector<Sighting> all;
  for (const Rank& rank : ranks_) all.push_back(rank.sighting);
  return all;
}

void LocalRun::judge(Time now) {
  if (failed_at_ && may_start_again()) {
    if (ranks_gone()) return start_again();
    if (!after_failure_.is_over(Patience::Seconds(job_.stall_s), awaited(false))) return;
  }
  if (failed_at_) {
    if (!all_gone() && !after_failure_.is_over(kGrace, awaited(false))) return;
    note_linker_errors();
    end(starts_itself() ? judge_command() : judge_failure(sightings()), now);
  } else if (all_gone()) {
    const auto unwell =
        std::find_if(others_.begin(), others_.end(), [](const OtherStarter& other) { return other.exit->value != 0; });
    if (unwell == others_.end()) return end({.status = Status::kFinished}, now);
    end({.status = Status::kFailed,
         .why = "the launcher (" + job_.starts.front().words.front() + ") exited with code " +
                std::to_string(unwell->exit->value) + " after all ranks had finished"},
        now);
  } else if (const std::optional<Expiry> expired = expiry(now)) {
    std::vector<Sighting> seen = sightings();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const bool running = seen[i].state == State::kRunning;
      if (running && ranks_[i].stopped.count() > 0) seen[i].state = State::kStopped;
    }
    const bool launcher_hangs = std::none_of(seen.begin(), seen.end(), [](const Sighting& rank) {
      return rank.state == State::kWaiting || rank.state == State::kRunning || rank.state == State::kStopped;
    });
    if (launcher_hangs) return end({.status = Status::kHung, .why = "the launcher did not end after its ranks"}, now);
    end(judge_hang(seen, *expired), now);
  }
}

/// The processes of this host that have not ended. One that would load only to see the failure is not waited for.
std::vector<Awaited> LocalRun::awaited(bool may_load) const {
  std::vector<Awaited> processes;
  bool one_is_unseen = false;
  for (const Rank& rank : ranks_) {
    if (rank.sighting.state != State::kRunning) continue;
    const bool loads = may_load && rank.sighting.progress.beats == 0;
    if (rank.process) processes.push_back({.pid = rank.process->pid(), .loads = loads});
    if (rank.attendant && rank.attendant->pid() > 0)
      processes.push_back({.pid = rank.attendant->pid(), .loads = loads});
    one_is_unseen |= !rank.process && !rank.attendant && loads;
  }
  for (const OtherStarter& other : others_) {
    if (!other.exit) processes.push_back({.pid = other.process.pid(), .loads = one_is_unseen});
  }
  return processes;
}

std::optional<Expiry> LocalRun::expiry(Time now) {
  for (const Rank& rank : ranks_) {
    if (rank.stopped >= kStopGrace) return Expiry{.clock = Expiry::Clock::kStop, .seconds = kStopGrace.count()};
  }
  if (job_.deadline_s && seconds_since_start(now) >= *job_.deadline_s)
    return Expiry{.clock = Expiry::Clock::kDeadline, .seconds = *job_.deadline_s};
  // Ranks that wait for one whose arrival we delay ourselves are not stalled.
  const bool all_started = std::none_of(ranks_.begin(), ranks_.end(),
                                        [](const Rank& rank) { return rank.sighting.state == State::kWaiting; });
  if (!all_started) return std::nullopt;
  // A program may take long before its first step, and has nothing to show then.
  const bool has_begun =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.sighting.progress.beats > 0; });
  if ((starts_itself() || job_.may_queue) && !has_begun) return std::nullopt;
  if (!silence_.is_over(Patience::Seconds(job_.stall_s), awaited(true))) return std::nullopt;
  return Expiry{.clock = Expiry::Clock::kStall, .seconds = job_.stall_s};
}

void LocalRun::end(Judgement judgement, Time now) {
  judgement_ = std::move(judgement);
  ended_at_ = now;
  for (const Rank& rank : ranks_) {
    if (rank.process) rank.process->kill_group();
    if (rank.attendant && rank.sighting.state == State::kRunning) rank.attendant->kill();
  }
  for (const OtherStarter& other : others_) {
    if (!other.exit) ::kill(other.process.pid(), SIGTERM);  // it tidies up; who does not is killed later
  }
}

/// Reaps the ranks, whose numbers and groups were held until now, and ends what they left behind.
void LocalRun::close(Time now) {
  RunOutcome outcome{.run = job_.run,
                     .status = judgement_.status,
                     .culprit = judgement_.culprit,
                     .why = judgement_.why,
                     .restarts = restarts_,
                     .log_tail = tail_of(log_path(job_, static_cast<std::size_t>(judgement_.culprit.value_or(0)))),
                     .wall_s = seconds_since_start(now)};
  // On a full disk the rank's own words are lost with its log.
  std::error_code ignored;
  if (outcome.status == Status::kResource &&
      std::filesystem::space(job_.directory, ignored).available < kLeastLogSpace) {
    outcome.why += ": No space left on device, in " + job_.directory.string();
  }
  for (Rank& rank : ranks_) {
    rank.process.reset();
    if (rank.exit.how == RankExit::How::kExited && rank.exit.code != 0)
      rank.exit.failure = read_failure(failure_path(job_.directory, static_cast<std::int64_t>(outcome.ranks.size())));
    outcome.ranks.push_back(rank.exit);
  }
  if (starts_itself() && outcome.status == Status::kFailed)
    outcome.command_failure = read_failure(command_failure_path(job_.directory));
  others_.clear();
  orphans_.end_orphans(environment_entry(kRunIdVariable, id_));
  if (has_other_launcher()) end_all_marked(environment_entry(kRunIdVariable, id_));
  outcome_ = std::move(outcome);
}

bool LocalRun::failed_unseen() const {
  return adopted_ && outcome_->status != Status::kFinished && outcome_->status != Status::kInterrupted;
}

bool LocalRun::all_gone() const { return others_ended() && ranks_gone(); }

bool LocalRun::ranks_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [this](const Rank& rank) {
    const bool is_absent = rank.sighting.state == State::kWaiting ||
                           (has_other_launcher() && !rank.attendant && rank.sighting.state == State::kRunning);
    const bool never_started = is_absent && (failed_at_ || ended_at_);
    return never_started || rank.sighting.state == State::kExited || rank.sighting.state == State::kSignalled;
  });
}

double LocalRun::seconds_since_start(Time now) const { return std::chrono::duration<double>(now - start_).count(); }

}  // namespace lockstep::launch
