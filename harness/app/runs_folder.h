#pragma once

#include <filesystem>
#include <string>

#include "harness/app/leftovers.h"

namespace lockstep::app {

/// Makes the folder that `--out` names; it may exist, but hold nothing. `content`: "runs".
/// *Throws*: InputError, ResourceError.
void require_new_folder(const std::filesystem::path& given, const std::string& content);

/// Folder that the runs' own folders are in. A temporary one goes away at the end unless `keep` was called; to make one
/// removes what earlier calls have left for too long.
class RunsFolder {
 public:
  /// *Throws*: ResourceError; InputError when a given folder holds runs already, and they are not to go on.
  explicit RunsFolder(const std::filesystem::path& given, bool resume = false);
  ~RunsFolder();
  RunsFolder(const RunsFolder&) = delete;
  RunsFolder& operator=(const RunsFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Keeps a temporary folder, and says on stderr where it is.
  void keep();

 private:
  std::filesystem::path path_;
  launch::Descriptor lock_;
  bool temporary_ = false;
};

}  // namespace lockstep::app
