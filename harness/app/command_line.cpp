#include "harness/app/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/app/commands.h"
#include "harness/app/error_places.h"
#include "harness/app/pipeline.h"
#include "harness/base/build_id.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 every check holds; 1 divergence; 2 usage, scenario or internal error; 3 no valid golden; "
    "4 inconclusive; 77 unsupported here, where the scenario allows it; 130 interrupted.";

/// In the order of the help page.
constexpr void (*kCommands[])(CLI::App&, Action&) = {
    add_run,    add_gate,  add_launch, add_judge, add_faults,  add_blame,      add_cost,
    add_doctor, add_audit, add_record, add_init,  add_config,  add_golden,     add_bisect,
    add_diff,   add_check, add_show,   add_demo,  add_explain, add_completion, add_man};

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

/// The innermost command that the words name. *Throws*: InputError for one that is not there: CLI11 would only say that
/// a subcommand is required.
const CLI::App& command_named(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string named;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> inner = command->get_subcommands([](const CLI::App*) { return true; });
    if (word.starts_with('-') || inner.empty()) break;
    const auto found =
        std::find_if(inner.begin(), inner.end(), [&](const CLI::App* one) { return one->get_name() == word; });
    if (found == inner.end())
      throw InputError({.what = "unknown command '" + named + word + "'",
                        .expected = "one of: " + join(names_of(inner), ", "),
                        .next = suggest(word, names_of(inner))});
    command = *found;
    named += word + " ";
  }
  return *command;
}

/// "lockstep golden accept".
std::string words_of(const CLI::App& command) {
  const CLI::App* const above = command.get_parent();
  return above == nullptr ? "lockstep" : words_of(*above) + " " + command.get_name();
}

/// Suggestion for the first option that a command does not have.
std::string suggested_option(const CLI::App& command, const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--")) continue;
    constexpr std::size_t kEndOfOptions = 2;  // characters: what follows is a command
    if (name.size() == kEndOfOptions) break;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (const auto meant = nearest(name, known)) return "did you mean '" + *meant + "'?";
  }
  return words_of(command) + " --help";
}

/// Options of lockstep itself may stand behind a command, too.
void let_fall_through(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();
    let_fall_through(*command);
  }
}

/// What the command line asks for.
Action chosen(int argc, char** argv, const char* version) {
  CLI::App app{"Reproducibility and determinism harness for multi-rank data-parallel training"};
  Action action;
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("lockstep ") + version + ", build " + build_id());
  app.footer(kExitCodes);
  static const std::map<std::string, Color> kColors = {
      {"auto", Color::kWhereItShows}, {"always", Color::kAlways}, {"never", Color::kNever}};
  std::string color = "auto";
  app.add_option("--color", color, "Colours. Default: auto, as NO_COLOR, FORCE_COLOR and the terminal say")
      ->type_name("WHEN")
      ->check(one_of({"auto", "always", "never"}));
  for (const auto add : kCommands) add(app, action);
  let_fall_through(app);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const CLI::App& command = command_named(app, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw InputError({.what = error.what(), .next = suggested_option(command, words)});
    const int code = app.exit(error);  // help, version
    return [code] { return code; };
  }
  choose_color(kColors.at(color));
  return action;
}

/// An error's parts are printable, each on a line of its own.
int report_failure(const Error& error, int code) {
  print_page(stderr, "lockstep: " + describe(as_told(error)) + "\n");
  return code;
}

int report_failure(const std::string& line, int code) {
  print_line(stderr, "lockstep: " + line);
  return code;
}

}  // namespace

int run_command_line(int argc, char** argv, const char* version) {
  try {
    const int code = chosen(argc, argv, version)();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return report_failure("the output could not be written", code == 0 ? 4 : code);
  } catch (const ResourceError& error) {
    return report_failure(error, 4);
  } catch (const DamagedFile& error) {
    return report_failure(error, 4);
  } catch (const Interrupted& error) {
    return report_failure(error, 130);
  } catch (const Unsupported& error) {
    return report_failure(error, 77);
  } catch (const Error& error) {
    return report_failure(error, 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return report_failure(InputError({.what = "the file system refuses: " + error.code().message(),
                                      .where = error.path1().string(),
                                      .next = "repair this path, or name another"}),
                          2);
  } catch (const std::exception& error) {
    return report_failure(std::string(error.what()), 2);
  }
}

}  // namespace lockstep::app
