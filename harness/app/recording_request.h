#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/base/json.h"

/// How a program that is not ours is recorded: the recorder gets into its Python processes through their environment.
namespace lockstep::app {

/// A recording of a program: its folder, and the part that is kept.
struct RecordingRequest {
  std::filesystem::path folder;  ///< of the run, absolute; gets rank<r>.jsonl
  std::int64_t every = 1;
  std::vector<std::string> channels;  ///< empty: all
  Json header = Json::object();       ///< merged into that of each trace
  bool strict = false;                ///< a recorder that fails ends the training
  std::int64_t stop_after = 0;        ///< updates after which the recorder ends the training; 0: it ends by itself
};

/// The folder that holds the Python package of the recorder. *Throws*: InputError where this installation has none.
std::filesystem::path find_recorder();

/// Variables that record a program: to be added to its environment. `python_path`: its PYTHONPATH so far.
std::map<std::string, std::string> recording_variables(const RecordingRequest& request, const std::string& python_path);

/// Variables that a recorder reads beside those of `recording_variables`, with the values that ask for nothing.
const std::map<std::string, std::string>& usual_recorder_variables();

/// Whether a path is that of an executable file.
bool is_program(const std::filesystem::path& file);

/// The file that a command names: a path, seen from `directory`, or a program in PATH.
/// *Throws*: InputError where there is none.
std::filesystem::path find_program(const std::string& name, const std::filesystem::path& directory);

}  // namespace lockstep::app
