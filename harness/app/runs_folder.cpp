#include "harness/app/runs_folder.h"

#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::app {

namespace fs = std::filesystem;

void require_new_folder(const fs::path& given, const std::string& content) {
  if (is_there(given) && !is_folder(given))
    throw InputError({.what = "the folder for the " + content + " is a file",
                      .where = "--out " + given.string(),
                      .expected = "an empty folder, or the name of a new one"});
  make_directories(given);
  std::vector<fs::path> entries = entries_of(given);
  std::erase_if(entries, [](const fs::path& entry) { return is_half_written(entry) && fs::remove(entry); });
  if (entries.empty()) return;
  throw InputError({.what = "the folder for the " + content + " is not empty",
                    .where = given.string(),
                    .next = "choose another with --out, or empty it: traces are never overwritten"});
}

RunsFolder::RunsFolder(const fs::path& given, bool resume) {
  if (given.empty()) {
    sweep_leftovers();
    TemporaryFolder made = make_temporary_folder();
    path_ = made.path;
    lock_ = std::move(made.lock);
    temporary_ = true;
    return;
  }
  if (!resume) require_new_folder(given, "runs");
  path_ = fs::absolute(given);
}

void RunsFolder::keep() {
  if (temporary_) print_line(stderr, "lockstep: the traces are in " + path_.string());
  temporary_ = false;
}

RunsFolder::~RunsFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(path_, ignored);
}

}  // namespace lockstep::app
