#include "harness/app/command_pages.h"

#include <algorithm>
#include <sstream>

#include "harness/base/text.h"

namespace lockstep::app {
namespace {

/// "KIND:{fork,exec}" as CLI11 writes a type with its choices.
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t begin = std::min(type.find('{'), type.size()), end = std::min(type.find('}'), type.size());
  std::vector<std::string> choices;
  if (begin >= end) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string one; std::getline(list, one, ',');) choices.push_back(one);
  return choices;
}

std::vector<std::string> names_in(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(/*positional=*/true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

Argument argument_of(const CLI::Option& option) {
  const std::string type = option.get_type_size() == 0 ? "" : option.get_type_name();
  Argument argument = {.names = names_in(option),
                       .value = type.substr(0, type.find(':')),
                       .choices = choices_in(type),
                       .repeats = option.get_items_expected_max() > 1,
                       .text = option.get_description()};
  if (option.get_positional() && argument.choices.empty() && type.starts_with("TEXT")) argument.value = "FILE";
  return argument;
}

}  // namespace

std::string CommandPage::name() const { return join(path, " "); }

CommandPage command_page(const CLI::App& app, std::vector<std::string> path) {
  CommandPage page = {.path = std::move(path), .text = app.get_description()};
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? page.words : page.options).push_back(argument_of(*option));
  for (const CLI::App* command : app.get_subcommands({})) {
    std::vector<std::string> below = page.path;
    below.push_back(command->get_name());
    page.commands.push_back(command_page(*command, std::move(below)));
  }
  return page;
}

std::vector<const CommandPage*> all_pages(const CommandPage& page) {
  std::vector<const CommandPage*> all = {&page};
  for (const CommandPage& below : page.commands) {
    const std::vector<const CommandPage*> more = all_pages(below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace lockstep::app
