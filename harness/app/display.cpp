#include "harness/app/display.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "harness/base/console.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};

/// Columns of a line that stderr gets.
std::size_t columns() {
  constexpr std::size_t kUsual = 79;
  return columns_of(STDERR_FILENO).value_or(kUsual);
}

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && term != nullptr && std::string(term) != "dumb";
}

/// Nothing where only the program knows.
std::optional<std::int64_t> steps_of(const plan::Plan& plan, std::size_t run) {
  const plan::Run& of = plan.runs[run];
  const scenario::Variant& variant = plan.scenario(of.scenario).variant(of.variant);
  return variant.knows("steps") ? std::optional(variant.train.steps) : std::nullopt;
}

/// Steps behind it, of a rank's last sign of life.
std::int64_t steps_done(const launch::Progress& progress) {
  return progress.step + (progress.phase == launch::Phase::kDone ? 1 : 0);
}

std::string in_words(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  constexpr long kMinute = 60;
  return (whole >= kMinute ? std::to_string(whole / kMinute) + " min " : "") + std::to_string(whole % kMinute) + " s";
}

std::string fixed(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", seconds);
  return text;
}

}  // namespace

std::optional<std::size_t> columns_of(int descriptor) {
  winsize size{};
  const bool is_known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return is_known ? std::optional<std::size_t>(size.ws_col - 1) : std::nullopt;
}

Display::Display(const plan::Plan& plan, report::Verbosity verbosity)
    : plan_(plan), verbosity_(verbosity), live_(verbosity == report::Verbosity::kUsual && is_terminal()) {
  for (const plan::Run& run : plan.runs) ++scenarios_[run.scenario].all;
}

Display::~Display() {
  if (!drawn_.empty()) print_page(stderr, "\r\033[K");
}

void Display::running(const std::vector<launch::Standing>& runs) {
  if (!live_ || Clock::now() - drawn_at_ < kRedraw) return;
  drawn_at_ = Clock::now();
  std::string line = line_of(runs, columns());
  if (line == drawn_) return;
  drawn_ = std::move(line);
  print_page(stderr, "\r" + printable(drawn_) + "\033[K");
}

void Display::ended(std::size_t job, const launch::RunOutcome& outcome) {
  done_.insert(job);
  const bool is_finished = outcome.status == launch::RunOutcome::Status::kFinished;
  Runs& runs = scenarios_.at(plan_.runs[job].scenario);
  ++runs.ended;
  runs.finished += is_finished ? 1 : 0;
  if (live_) return;
  if (verbosity_ == report::Verbosity::kVerbose || !is_finished) print_run(outcome);
  if (verbosity_ == report::Verbosity::kUsual) print_scenario(plan_.runs[job].scenario);
}

void Display::print_run(const launch::RunOutcome& outcome) const {
  const std::string why = outcome.why.empty() ? "" : ": " + outcome.why;
  print_line(stderr, "lockstep: run " + std::to_string(done_.size()) + " of " + std::to_string(plan_.runs.size()) +
                         ", " + outcome.run + ", " + std::string(name_of(outcome.status)) + " after " +
                         fixed(outcome.wall_s) + " s" + why);
}

void Display::print_scenario(const std::string& name) const {
  const Runs& runs = scenarios_.at(name);
  if (runs.ended < runs.all) return;
  const auto complete = std::count_if(scenarios_.begin(), scenarios_.end(),
                                      [](const auto& one) { return one.second.ended == one.second.all; });
  print_line(stderr, "lockstep: scenario " + std::to_string(complete) + " of " + std::to_string(scenarios_.size()) +
                         ", " + name + ", " + std::to_string(runs.finished) + " of " + std::to_string(runs.all) +
                         " runs finished after " + fixed(std::chrono::duration<double>(Clock::now() - begin_).count()) +
                         " s");
}

std::string Display::line_of(const std::vector<launch::Standing>& runs, std::size_t width) const {
  const std::string head = "lockstep: " + std::to_string(done_.size()) + " of " + std::to_string(plan_.runs.size()) +
                           " runs done" + time_left(runs);
  std::vector<std::string> parts;
  for (const launch::Standing& run : runs) {
    const std::int64_t step = run.progress.step;
    const std::optional<std::int64_t> steps = steps_of(plan_, run.job);
    parts.push_back(printable(plan_.runs[run.job].name) + (step < 0 ? " starts" : " step " + std::to_string(step + 1)) +
                    (step < 0 || !steps ? "" : " of " + std::to_string(*steps)));
  }
  for (std::size_t shown = parts.size(); shown > 0; --shown) {
    std::string line = head + ": " + some_of(parts, shown);
    if (line.size() <= width) return line;
  }
  return head.substr(0, width);
}

/// Every run counts as much as it has ranks; one that goes, as far as it has come.
std::string Display::time_left(const std::vector<launch::Standing>& runs) const {
  double all = 0, behind = 0;
  for (const plan::Run& run : plan_.runs) all += static_cast<double>(run.world_size);
  for (const std::size_t run : done_) behind += static_cast<double>(plan_.runs[run].world_size);
  for (const launch::Standing& run : runs) {
    const std::optional<std::int64_t> all_steps = steps_of(plan_, run.job);
    if (!all_steps) continue;
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, *all_steps));
    const double done = std::clamp(static_cast<double>(steps_done(run.progress)) / steps, 0.0, 1.0);
    behind += static_cast<double>(plan_.runs[run.job].world_size) * done;
  }
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  constexpr double kTooSoon_s = 2, kTooLittle = 0.02;
  if (elapsed < kTooSoon_s || behind < kTooLittle * all) return "";
  return ", " + in_words(elapsed * (all - behind) / behind) + " left";
}

}  // namespace lockstep::app
