// Scripts by which shells complete the words of a command line.
#include <algorithm>
#include <iterator>

#include "harness/app/command_pages.h"
#include "harness/app/commands.h"
#include "harness/base/console.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

std::vector<std::string> option_names(const CommandPage& page) {
  std::vector<std::string> names;
  for (const Argument& option : page.options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> command_names(const CommandPage& page) {
  std::vector<std::string> names;
  for (const CommandPage& command : page.commands) names.push_back(command.path.back());
  return names;
}

/// Text for within single quotes: a backslash ahead of each character of `escaped`, `quote` in the place of a quote.
std::string within_quotes(const std::string& text, std::string_view escaped, const char* quote) {
  std::string out;
  for (const char c : text) {
    if (escaped.find(c) != std::string_view::npos) out += '\\';
    out += c == '\'' ? quote : std::string(1, c);
  }
  return out;
}

// ---- bash. *Source*: its manual, "Programmable Completion".

/// Sets what `compgen` is asked for.
std::string bash_values(const Argument& argument) {
  const char* action = argument.takes_file() ? "file" : argument.takes_folder() ? "directory" : "";
  return "words='" + join(argument.choices, " ") + "' action=" + action;
}

std::string bash_cases(const CommandPage& page) {
  const std::string first = page.words.empty() ? "words= action=" : bash_values(page.words[0]);
  return "    '" + page.name() + "') options='" + join(option_names(page), " ") + "' " +
         (page.commands.empty() ? first : "words='" + join(command_names(page), " ") + "' action=") + " ;;\n";
}

std::string bash_option_cases(const CommandPage& page) {
  std::string out;
  for (const Argument& option : page.options) {
    if (option.value.empty()) continue;
    for (const std::string& name : option.names)
      out += "    '" + page.name() + " " + name + "') options= " + bash_values(option) + " ;;\n";
  }
  return out;
}

std::string bash_script(const CommandPage& root) {
  std::string paths, commands, options;
  for (const CommandPage* page : all_pages(root)) {
    if (page != &root) paths += "      '" + page->name() + "') command+=\" ${COMP_WORDS[i]}\" ;;\n";
    commands += bash_cases(*page);
    options += bash_option_cases(*page);
  }
  return R"(# Completes the words of lockstep in bash. Made by: lockstep completion bash
_lockstep() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=lockstep options= words= action= i
  # bash takes "--option=value" for three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)" + paths +
         R"(    esac
  done
  case $command in
)" + commands +
         R"(  esac
  case "$command $previous" in
)" + options +
         R"(  esac
  if [[ $current == -* ]]; then
    words=$options action=
  elif [[ $action ]]; then
    compopt -o filenames 2>/dev/null
  fi
  mapfile -t COMPREPLY < <(compgen ${action:+-A "$action"} -W "$words" -- "$current")
}
complete -F _lockstep lockstep
)";
}

// ---- zsh. *Source*: zshcompsys(1), "_arguments".

std::string zsh_function(const CommandPage& page) { return "_" + join(page.path, "_"); }

std::string zsh_text(const std::string& text) { return within_quotes(text, "[]:\\", "'\\''"); }

std::string zsh_values(const Argument& argument) {
  if (!argument.choices.empty()) return "(" + join(argument.choices, " ") + ")";
  return argument.takes_file() ? "_files" : argument.takes_folder() ? "_files -/" : "";
}

std::string zsh_option(const Argument& option) {
  const std::string values = option.value.empty() ? "" : ":" + option.value + ":" + zsh_values(option);
  std::string out;
  for (const std::string& name : option.names)
    out += std::string(" \\\n    '") + (option.repeats ? "*" : "") + name + "[" + zsh_text(option.text) + "]" + values +
           "'";
  return out;
}

std::string zsh_functions(const CommandPage& page) {
  std::string out = zsh_function(page) + "() {\n  local context state state_descr line\n  typeset -A opt_args\n";
  out += "  _arguments -C -S";
  for (const Argument& option : page.options) out += zsh_option(option);
  for (const Argument& word : page.words)
    out += std::string(" \\\n    '") + (word.repeats ? "*" : "") + ":" + word.names[0] + ":" + zsh_values(word) + "'";
  if (page.commands.empty()) return out + "\n}\n";
  out += " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n    command)\n";
  out += "      local -a commands=(";
  for (const CommandPage& command : page.commands)
    out += "\n        '" + command.path.back() + ":" + zsh_text(command.text) + "'";
  out += ")\n      _describe command commands ;;\n    argument)\n      case $words[1] in\n";
  for (const CommandPage& command : page.commands)
    out += "        " + command.path.back() + ") " + zsh_function(command) + " ;;\n";
  return out + "      esac ;;\n  esac\n}\n";
}

std::string zsh_script(const CommandPage& root) {
  std::string out = "#compdef lockstep\n# Completes the words of lockstep in zsh. Made by: lockstep completion zsh\n";
  for (const CommandPage* page : all_pages(root)) out += zsh_functions(*page);
  return out + "if [[ $funcstack[1] == _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n";
}

// ---- fish. *Source*: its manual, "complete".

std::string fish_text(const std::string& text) { return "'" + within_quotes(text, "\\", "\\'") + "'"; }

/// Other commands that have one of the page's name below them: "lockstep config show" is no "lockstep show".
std::vector<std::string> fish_others(const CommandPage& root, const CommandPage& page) {
  std::vector<std::string> others;
  for (const CommandPage& command : root.commands) {
    const std::vector<std::string> names = command_names(command);
    if (page.path.size() == 2 && std::find(names.begin(), names.end(), page.path[1]) != names.end())
      others.push_back(command.path.back());
  }
  return others;
}

/// "-n" with the condition that the command line is at this command.
std::string fish_begin(const CommandPage& root, const CommandPage& page) {
  std::string condition;
  for (std::size_t i = 1; i < page.path.size(); ++i)
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + page.path[i]);
  for (const std::string& other : fish_others(root, page))
    condition += "; and not __fish_seen_subcommand_from " + other;
  if (!page.commands.empty())
    condition +=
        (condition.empty() ? "" : "; and ") + ("not __fish_seen_subcommand_from " + join(command_names(page), " "));
  return "complete -c lockstep -n " + fish_text(condition);
}

std::string fish_option(const Argument& option) {
  std::string out;
  for (const std::string& name : option.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.value.empty()) out += option.takes_file() || option.takes_folder() ? " -r -F" : " -x";
  if (!option.choices.empty()) out += " -a " + fish_text(join(option.choices, " "));
  return out + " -d " + fish_text(option.text);
}

std::string fish_script(const CommandPage& root) {
  std::string out = "# Completes the words of lockstep in fish. Made by: lockstep completion fish\n";
  for (const CommandPage* page : all_pages(root)) {
    const std::string begin = fish_begin(root, *page);
    const bool takes_files = !page->words.empty() && (page->words[0].takes_file() || page->words[0].takes_folder());
    if (!takes_files) out += begin + " -f\n";
    if (!page->words.empty() && !page->words[0].choices.empty())
      out += begin + " -a " + fish_text(join(page->words[0].choices, " ")) + "\n";
    for (const CommandPage& command : page->commands)
      out += begin + " -a " + command.path.back() + " -d " + fish_text(command.text) + "\n";
    for (const Argument& option : page->options) out += begin + fish_option(option) + "\n";
  }
  return out;
}

struct Shell {
  const char* name;
  std::string (*script)(const CommandPage&);
};
constexpr Shell kShells[] = {{"bash", bash_script}, {"fish", fish_script}, {"zsh", zsh_script}};

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands and options in a shell");
  std::vector<std::string> shells;
  for (const Shell& one : kShells) shells.emplace_back(one.name);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell")->required()->check(one_of(shells));
  command->callback([&app, &action, shell] {
    const auto* const chosen =
        std::find_if(std::begin(kShells), std::end(kShells), [&](const Shell& one) { return one.name == *shell; });
    action = [text = chosen->script(command_page(app))] {
      print_page(stdout, text);
      return 0;
    };
  });
}

}  // namespace lockstep::app
