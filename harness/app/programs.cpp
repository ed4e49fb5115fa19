#include "harness/app/programs.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "harness/app/recording_request.h"
#include "harness/app/shell.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/plan/validation.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// Asks for metadata alone: to import torch takes seconds. Three lines: versions of Python and torch ("-": none), and
/// whether torch would call the recorder. In one line, which every shell quotes alike.
constexpr const char* kQuestion =
    R"py(exec("""import sys\nfrom importlib import metadata\nprint(sys.version.split()[0])\n)py"
    R"py(try:\n print(metadata.version('torch'))\nexcept metadata.PackageNotFoundError:\n print('-')\n)py"
    R"py(points = metadata.entry_points()\n)py"
    R"py(group = points.select(group='torch.backends') if hasattr(points, 'select') else points.get('torch.backends', [])\n)py"
    R"py(print(any(point.name == 'lockstep' for point in group))"""))py";

bool is_python(const fs::path& program) { return program.filename().string().starts_with("python"); }

/// torch calls entry points from this release on.
bool calls_entry_points(const std::string& torch) {
  int major = 0, minor = 0;
  char dot = 0;
  std::istringstream(torch) >> major >> dot >> minor;
  return major > 2 || (major == 2 && minor >= 5);
}

}  // namespace

fs::path python_in_path() {
  for (const char* name : {"python", "python3"}) {
    try {
      return find_program(name, ".");
    } catch (const InputError&) {  // the other name may be there
    }
  }
  return {};
}

fs::path examine_command(const scenario::Scenario& scenario, const scenario::Variant& variant) {
  const fs::path directory = plan::file_of(scenario, variant.program->directory);
  const std::vector<std::string>& command = variant.program->command;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const bool is_script = command[i].ends_with(".py") && command[i].find('{') == std::string::npos;
    if (is_script && !is_there(directory / command[i]))
      throw InputError({.what = "a script that the command names is missing",
                        .where = scenario.file.string() + ": program (variant '" + variant.name + "')",
                        .expected = "a file, relative to program.directory",
                        .actual = "nothing in " + (directory / command[i]).string(),
                        .next = "correct the command, or set program.directory to the script's folder"});
  }
  return find_program(command[0], directory);
}

fs::path python_of(const fs::path& program) {
  if (is_python(program)) return program;
  std::string first_line;
  std::ifstream stream(program);
  std::getline(stream, first_line);
  if (!first_line.starts_with("#!")) return {};
  std::istringstream words(first_line.substr(2));
  std::string interpreter;
  words >> interpreter;
  const bool is_own = is_python(interpreter) && is_program(interpreter);
  return is_own ? fs::path(interpreter) : python_in_path();  // env, or a shell that starts it
}

std::string examine_python(const fs::path& python) {
  const char* const inherited = std::getenv("PYTHONPATH");
  const std::string path = find_recorder().string() + (inherited == nullptr ? "" : std::string(":") + inherited);
  const std::string command =
      "PYTHONPATH=" + shell_quoted(path) + " " + shell_quoted(python.string()) + " -c " + shell_quoted(kQuestion);
  const Said said = said_by(command + " 2>&1");
  std::istringstream lines(said.text);
  std::string version, torch, is_called;
  std::getline(lines, version) && std::getline(lines, torch) && std::getline(lines, is_called);
  if (said.status != 0 || is_called.empty())
    throw InputError({.what = "this Python does not answer",
                      .where = python.string(),
                      .expected = "its version, and that of torch",
                      .actual = said.text,
                      .next = "see why: " + shell_quoted(python.string()) + " --version"});
  const std::string what = python.string() + ", " + version + ", ";
  if (torch == "-")
    throw InputError({.what = "this Python has no torch: nothing would be recorded",
                      .where = what.substr(0, what.size() - 2),
                      .next = "activate the environment that torch is installed in"});
  if (!calls_entry_points(torch))
    throw InputError({.what = "this torch calls no entry points: nothing would be recorded",
                      .where = what + "torch " + torch,
                      .expected = "torch 2.5 or newer",
                      .next = "pip install --upgrade torch"});
  if (is_called != "True")
    throw InputError({.what = "this Python does not find the recorder's entry point: nothing would be recorded",
                      .where = what + "PYTHONPATH=" + path,
                      .expected = "lockstep in the group torch.backends",
                      .next = "install lockstep again: its folder of Python packages is not whole"});
  return what + "torch " + torch + " calls the recorder";
}

}  // namespace lockstep::app
