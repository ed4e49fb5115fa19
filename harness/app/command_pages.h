#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::app {

/// An option, or a word that stands by its place.
struct Argument {
  std::vector<std::string> names;    ///< "-h", "--help"; of a word by its place its name alone: "scenarios"
  std::string value;                 ///< "FILE"; empty: a flag
  std::vector<std::string> choices;  ///< all values that there are; empty: any
  bool repeats = false;              ///< may be given more than once
  std::string text;

  bool takes_file() const { return value.starts_with("FILE"); }
  bool takes_folder() const { return value.starts_with("FOLDER"); }
};

/// A command as its help page describes it.
struct CommandPage {
  std::vector<std::string> path;  ///< "lockstep", "audit", "scaling"
  std::string text;
  std::vector<Argument> options;
  std::vector<Argument> words;  ///< those that stand by their place
  std::vector<CommandPage> commands;

  std::string name() const;  ///< "lockstep audit scaling"
};

/// The command and all below it. A word by its place that has no type is taken for the name of a file.
CommandPage command_page(const CLI::App& app, std::vector<std::string> path = {"lockstep"});

/// The page and all below it, each ahead of those below it.
std::vector<const CommandPage*> all_pages(const CommandPage& page);

}  // namespace lockstep::app
