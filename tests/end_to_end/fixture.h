#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "harness/trace/trace.h"

#include "tests/support/support.h"

namespace lockstep::test {

/// What a run of lockstep left behind.
struct Result {
  Outcome process;
  Json json;  ///< of --json; null when lockstep wrote none
  double wall_s = 0;
  std::filesystem::path out;  ///< folder of the traces

  int exit_code() const { return process.exit_code; }
  /// Everything that lockstep said, for messages of tests.
  std::string said() const;
  /// The report of the only check of this kind; null, and a failure, when there is not exactly one.
  Json check(const std::string& relation) const;
  /// The report of the only run that did not end well; null, and a failure, when there is not exactly one.
  Json failed_run() const;
};

/// Where a divergence has to be.
struct Place {
  std::int64_t step = 0;
  std::string channel;
  std::string tensor;
  std::int64_t rank = 0;
};

/// A folder with scenarios, goldens and traces of its own, and lockstep to run in it.
class EndToEnd : public ::testing::Test {
 protected:
  /// Two ranks, an mlp, 48 digits in batches of 12, four updates with momentum; `changes` are merged into it.
  static Json scenario(const Json& changes = Json::object());

  /// Writes the scenario to <name>.json.
  std::filesystem::path write(const Json& scenario) const;

  /// `lockstep run` of a scenario with the goldens of this test.
  Result run(const Json& scenario, const std::vector<std::string>& more = {});
  Result run_file(const std::filesystem::path& file, const std::vector<std::string>& more = {},
                  const std::filesystem::path& from = "");

  /// A command that judges scenarios, "run" or "blame", with the words behind it.
  Result judged(const std::string& command, const std::vector<std::string>& more,
                const std::filesystem::path& from = "");

  /// `lockstep golden accept`, which must work.
  void accept(const Json& scenario, const std::vector<std::string>& more = {});

  /// A worker that is a shell script: `script` runs with $spec, $out and $worker set.
  std::filesystem::path script_worker(const std::string& script) const;

  /// The golden of a variant.
  std::filesystem::path golden_file(const std::string& scenario, const std::string& variant = "main") const;
  std::filesystem::path golden_root() const { return scratch_.path() / "golden"; }

  Scratch scratch_;

 private:
  int runs_ = 0;
};

/// Runs lockstep with these arguments.
Outcome run_lockstep(std::vector<std::string> arguments, const std::filesystem::path& from = "");

/// A fault for train.faults.
Json fault(const std::string& kind, std::int64_t step, std::int64_t rank, const Json& more = Json::object());

/// {"that": kind} and what else the check says.
Json check(const std::string& kind, const Json& more = Json::object());

/// {"train": {…}} with the value at a dotted path, for `changes` and variants.
Json at(const std::string& dotted_path, Json value);

/// Several such changes in one.
Json merged(std::initializer_list<Json> changes);

/// Asserts status, class and place of a check that must be red.
void expect_divergence(const Json& check, const Place& place, const std::string& kind = "semantic");

/// Asserts that all is green: exit code 0, status, and that something was compared.
void expect_green(const Result& result);

/// Asserts that a text holds all of these.
void expect_says(const std::string& text, const std::vector<std::string>& parts);

std::vector<std::string> lines_of(const std::filesystem::path& file);
std::string read_text(const std::filesystem::path& file);

/// Changes the trace of one rank and seals it again.
void rewrite(const std::filesystem::path& file, const std::function<void(trace::Trace&)>& change);

/// Writes lines back, each with its newline.
void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines);

}  // namespace lockstep::test
