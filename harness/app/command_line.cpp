#include "harness/app/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/app/commands.h"
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

/// CLI11 would only say that a subcommand is required.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw InputError({.what = "unknown command '" + std::string(argv[1]) + "'",
                    .expected = "one of: " + join(names, ", "),
                    .next = suggest(argv[1], names)});
}

/// What the command line asks for.
Action chosen(int argc, char** argv, const char* version) {
  CLI::App app{"Reproducibility and determinism harness for multi-rank data-parallel training"};
  Action action;
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("lockstep ") + version + ", build " + build_id());
  app.footer(kExitCodes);
  for (const auto add : kCommands) add(app, action);
  require_known_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      throw InputError({.what = error.what(), .next = "lockstep --help, or --help after a command"});
    const int code = app.exit(error);  // help, version
    return [code] { return code; };
  }
  return action;
}

/// An error's parts are printable, each on a line of its own.
int report_failure(const Error& error, int code) {
  print_page(stderr, "lockstep: " + std::string(error.what()) + "\n");
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
