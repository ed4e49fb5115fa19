#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::report {

/// A form of a report: it turns verdicts into bytes, and judges nothing.
class Renderer {
 public:
  virtual ~Renderer() = default;
  virtual std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const = 0;
};

/// How much is printed of what is well. Failures, and what a check that agrees did not compare, are always printed.
enum class Verbosity {
  kQuiet,    ///< nothing but the last line
  kUsual,    ///< a line for each scenario
  kVerbose,  ///< a line for each run and each check, too
};

/// A table of scenarios, then every failure with place, values, class, cause and what to do next.
/// `color`: whether terminal colours may be used.
std::unique_ptr<Renderer> make_text_renderer(bool color, Verbosity verbosity = Verbosity::kUsual);

/// The machine-readable result, "lockstep.result/1".
std::unique_ptr<Renderer> make_json_renderer();

/// JUnit's XML: a test case for each check, and for each run that did not end well.
std::unique_ptr<Renderer> make_junit_renderer();

/// One page of HTML with pictures, for people: no network, and no script needed.
std::unique_ptr<Renderer> make_html_renderer();

/// A page for a pull request's comment, or a step summary.
std::unique_ptr<Renderer> make_markdown_renderer();

/// Annotations of GitHub Actions, which a step prints.
std::unique_ptr<Renderer> make_github_renderer();

/// An in-toto statement: the result of the tests of scenarios and goldens, which it names by their SHA-256.
std::unique_ptr<Renderer> make_in_toto_renderer();

/// The curves of all runs as CSV: a row for each step of each run.
std::unique_ptr<Renderer> make_csv_renderer();

/// Content of files, by their path in the folder of a report.
using Files = std::map<std::filesystem::path, std::string>;

/// Name of every file in TensorBoard's folder.
inline constexpr const char* kEventFile = "events.out.tfevents.0.lockstep";

/// The same curves for TensorBoard: a folder for each run.
Files tensorboard_files(const judge::Verdict& verdict, const plan::Plan& plan);

/// Pictures that a format needs a verdict to have (judge/illustrate.h).
enum class Draws { kNothing, kCurves, kCurvesAndMaps };

/// A report that a command writes: --report <kind>=FILE, or FOLDER.
struct Format {
  const char* kind;
  std::unique_ptr<Renderer> (*make)();  ///< null: it is a folder
  Draws draws = Draws::kNothing;
  bool vouches_for_files = false;  ///< whether it makes a statement on the files, which --set must not change
  Files (*files)(const judge::Verdict& verdict, const plan::Plan& plan) = nullptr;  ///< of a folder

  bool is_folder() const { return files != nullptr; }
};

/// The format of a kind; null: there is none.
const Format* find_format(const std::string& kind);

/// One row for each format.
const std::vector<Format>& formats();

/// "checks.0 equal (a, b)".
std::string name_of_check(const judge::CheckReport& check);

/// One check or run, as the text report has it, without colour.
std::string to_text(const judge::CheckReport& check);
std::string to_text(const judge::RunReport& run);

/// One divergence, indented: step, channel, tensor, rank, both sides, relation, class, cause.
std::string to_text(const compare::Divergence& divergence);
Json to_json(const compare::Divergence& divergence);

/// The JSON renderer's value, for commands that add to it.
Json to_json(const judge::Verdict& verdict, const plan::Plan& plan);

}  // namespace lockstep::report
