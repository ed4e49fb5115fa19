#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/recording_request.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/scenario/scenario.h"

namespace lockstep::app {
namespace {

struct InitOptions {
  std::filesystem::path out;  ///< the scenario's file; empty: named after the script
  std::vector<std::string> command;
};

namespace fs = std::filesystem;

/// Options by which launchers are told the number of ranks.
constexpr const char* kRankOptions[] = {
    "--nproc-per-node", "--nproc_per_node", "--num_processes", "--num-processes", "--devices", "-np", "-n"};

/// Placeholders that a command may hold before it stands in a scenario.
constexpr std::string_view kPlaceholders[] = {"{folder}", "{world_size}"};

std::optional<std::int64_t> number_from(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number > 0;
  return whole ? std::optional(number) : std::nullopt;
}

/// A text as it stands in a scenario, where a brace begins a placeholder: those stay, each other brace is doubled.
std::string escaped(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_placeholder =
        std::any_of(std::begin(kPlaceholders), std::end(kPlaceholders),
                    [&](std::string_view name) { return text.compare(i, name.size(), name) == 0; });
    result += text[i] == '{' && !is_placeholder ? "{{" : std::string(1, text[i]);
  }
  return result;
}

/// A command, with the number of its ranks taken out.
struct Command {
  std::vector<std::string> words;
  std::int64_t world_size = 1;
  std::string option;  ///< that said so; empty: none did
};

Command command_from(const std::vector<std::string>& given) {
  Command command;
  for (const std::string& word : given) {
    const std::string previous = command.words.empty() ? "" : command.words.back();
    const std::size_t equals = word.find('=');
    const auto is_option = [](const std::string& text) {
      return std::any_of(std::begin(kRankOptions), std::end(kRankOptions),
                         [&](const char* option) { return text == option; });
    };
    if (const auto number = number_from(word); number && is_option(previous) && command.option.empty()) {
      command.world_size = *number;
      command.option = previous;
      command.words.emplace_back("{world_size}");
    } else if (const auto joined = equals == std::string::npos ? std::nullopt : number_from(word.substr(equals + 1));
               joined && is_option(word.substr(0, equals)) && command.option.empty()) {
      command.world_size = *joined;
      command.option = word.substr(0, equals);
      command.words.push_back(command.option + "={world_size}");
    } else {
      command.words.push_back(escaped(word));
    }
  }
  return command;
}

/// The script that a command runs: the first word that names a Python file, else the command itself. *Throws*:
/// InputError where it names a Python file that is not there.
std::string script_of(const std::vector<std::string>& command) {
  const auto script = std::find_if(command.begin(), command.end(), [](const std::string& word) {
    return word.ends_with(".py") && fs::is_regular_file(word);
  });
  if (script != command.end()) return *script;
  const auto missing =
      std::find_if(command.begin(), command.end(), [](const std::string& word) { return word.ends_with(".py"); });
  if (missing == command.end()) return command.front();
  throw InputError(
      {.what = "the script is missing", .where = *missing, .expected = "a file, as seen from this folder"});
}

/// Letters that a scenario's name may have.
std::string name_from(const std::string& script) {
  std::string name;
  for (const char c : fs::path(script).stem().string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) name += static_cast<char>(std::tolower(byte));
    if (!name.empty() && (c == '_' || c == '-' || c == '.')) name += c;
  }
  constexpr std::size_t kLongest = 80;
  return name.empty() ? "training" : name.substr(0, kLongest);
}

std::string ranks_in_words(std::int64_t world_size) {
  return world_size == 1 ? "1 rank" : std::to_string(world_size) + " ranks";
}

nlohmann::ordered_json checks_for(std::int64_t world_size) {
  nlohmann::ordered_json checks = {{{"that", "repeatable"}}, {{"that", "laws"}}, {{"that", "golden"}}};
  if (world_size > 1) {
    checks.push_back({{"that", "ranks_agree"}});
    checks.push_back({{"that", "ranks_differ"}, {"on", {"samples"}}});
    checks.push_back({{"that", "reduction"}});
  }
  return checks;
}

/// The schema of this installation, for editors: relative to `folder` where it is below it, so that the scenario may
/// move with it. Empty: this installation has none.
std::string schema_for(const fs::path& folder) {
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"../share/lockstep", "../../harness/scenario"}) {
    const fs::path file = (beside / place / "scenario.schema.json").lexically_normal();
    if (!is_there(file)) continue;
    const fs::path relative = file.lexically_relative(folder);
    return (relative.empty() || *relative.begin() == ".." ? file : relative).string();
  }
  return "";
}

/// A first scenario, ordered as a person reads it.
nlohmann::ordered_json scenario_of(const std::string& name, const Command& command, const fs::path& folder) {
  nlohmann::ordered_json scenario = nlohmann::ordered_json::object();
  if (const std::string schema = schema_for(folder); !schema.empty()) scenario["$schema"] = schema;
  const std::string directory = fs::current_path().lexically_relative(folder).string();
  scenario["name"] = name;
  scenario["description"] = "Two runs of " + name + " with " + ranks_in_words(command.world_size) +
                            " compute the same bits, as accepted" +
                            (command.world_size > 1 ? ", and its ranks stay together." : ".");
  scenario["world_size"] = command.world_size;
  scenario["program"] = {{"command", command.words}, {"directory", directory.empty() ? "." : directory}};
  scenario["repeats"] = 2;
  scenario["checks"] = checks_for(command.world_size);
  return scenario;
}

/// What to do with a new scenario. A run proposes its golden; accepting that starts no run.
void print_next_steps(const fs::path& file, const std::string& name) {
  print_line(stdout, "next: lockstep doctor " + shell_quoted(file.string()));
  print_line(stdout, "      lockstep run " + shell_quoted(file.string()));
  print_line(stdout, "      lockstep golden accept " + shell_quoted(name + "/*") + " --reason 'first golden'");
  print_line(stdout, "The run ends with exit code 3 until its golden is accepted.");
}

int init(const InitOptions& options) {
  find_program(options.command.at(0), fs::current_path());
  const Command command = command_from(options.command);
  const std::string name = name_from(script_of(options.command));
  const fs::path file = options.out.empty() ? fs::path(name + ".lockstep.json") : options.out;
  if (is_there(file))
    throw InputError({.what = "the scenario is there already",
                      .where = file.string(),
                      .next = "name another file with --out, or edit this one"});
  const fs::path folder = fs::absolute(file).parent_path();
  make_directories(folder);
  replace_file(
      file,
      scenario_of(name, command, folder).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  scenario::load_scenario(file);  // it must be one
  print_line(stdout,
             "wrote " + file.string() + ": " + ranks_in_words(command.world_size) +
                 (command.option.empty() ? "; no option of the command says how many" : ", from " + command.option));
  print_next_steps(file, name);
  return 0;
}

}  // namespace

void add_init(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("init", "Write a first scenario for a command: lockstep init -- COMMAND");
  const auto options = std::make_shared<InitOptions>();
  command->add_option("--out", options->out, "File to write. Default: named after the script")
      ->type_name("FILE")
      ->check(not_empty);
  command->add_option("command", options->command, "The command, after --")->required()->check(not_empty);
  command->positionals_at_end();
  run_when_chosen(*command, action, options, init);
}

}  // namespace lockstep::app
