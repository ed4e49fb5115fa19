#include "harness/app/recording_request.h"

#include <cstdlib>
#include <sstream>

#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "lockstep/__init__.py";

}  // namespace

fs::path find_recorder() {
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path();
  std::vector<std::string> looked;
  for (const char* place : {"../python", "../share/lockstep/python"}) {
    const fs::path folder = (beside / place).lexically_normal();
    if (is_there(folder / kPackage)) return folder;
    looked.push_back(folder.string());
  }
  throw InputError({.what = "the recorder for Python is missing",
                    .where = join(looked, ", "),
                    .expected = std::string("a folder with ") + kPackage,
                    .next = "build it (ci/build), or install lockstep whole"});
}

std::map<std::string, std::string> recording_variables(const RecordingRequest& request,
                                                       const std::string& python_path) {
  const std::string package = find_recorder().string();
  std::map<std::string, std::string> variables = {
      {"PYTHONPATH", python_path.empty() ? package : package + ":" + python_path},
      {"LOCKSTEP_RECORD", request.folder.string()},
      {"LOCKSTEP_RECORD_EVERY", std::to_string(request.every)},
      {"LOCKSTEP_RECORD_HEADER", request.header.dump()}};
  if (!request.channels.empty()) variables["LOCKSTEP_RECORD_CHANNELS"] = join(request.channels, ",");
  if (request.strict) variables["LOCKSTEP_RECORD_STRICT"] = "1";
  if (request.stop_after > 0) variables["LOCKSTEP_RECORD_STOP_AFTER"] = std::to_string(request.stop_after);
  return variables;
}

const std::map<std::string, std::string>& usual_recorder_variables() {
  static const std::map<std::string, std::string> kAll = {{"LOCKSTEP_RECORD_CHANNELS", ""},
                                                          {"LOCKSTEP_RECORD_WEIGHTS", "steps"},
                                                          {"LOCKSTEP_RECORD_STRICT", "0"},
                                                          {"LOCKSTEP_RECORD_STOP_AFTER", ""},
                                                          {"LOCKSTEP_CONTROL", "{}"}};
  return kAll;
}

bool is_program(const fs::path& file) { return ::access(file.c_str(), X_OK) == 0 && !is_folder(file); }

fs::path find_program(const std::string& name, const fs::path& directory) {
  if (name.find('/') != std::string::npos) {
    const fs::path file = directory / name;
    if (is_program(file)) return file;
    throw InputError({.what = "the program to run is missing",
                      .where = file.string(),
                      .expected = "an executable file",
                      .next = "correct the path, or make the file executable"});
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    if (is_program(file)) return fs::absolute(file);
  }
  throw InputError({.what = "the program '" + name + "' is not found",
                    .where = "PATH",
                    .expected = "an executable file of this name",
                    .next = "activate the environment that it is installed in, or give its path"});
}

}  // namespace lockstep::app
