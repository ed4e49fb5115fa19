#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// The one narrow interface to the file system: every failure names the path and the system's reason.
namespace lockstep {

/// Largest file that is read: whoever reads one holds it in memory. *Units*: bytes.
inline constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{64} << 30;

/// Whole content of a file.
/// *Throws*: InputError when it is missing or unreadable, or no regular file: reading a pipe could wait for ever; or
/// when it is larger than `most` bytes. ResourceError when it does not fit into memory.
std::string read_file(const std::filesystem::path& path, std::uintmax_t most = kMostFileBytes);

/// Calls `take` with the content, piece by piece: for what need not be held. *Throws*: as read_file.
void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take);

/// *Units*: bytes. *Throws*: InputError.
std::uintmax_t bytes_in_file(const std::filesystem::path& path);

/// Whether there is something at `path`, or a folder; links are followed.
/// *Throws*: InputError where the system cannot answer: links in a circle, no permission, a name too long.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// Entries of a folder, without its subfolders' entries, in byte order. *Throws*: InputError.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// All that is no folder in a folder and in its folders, links followed: "b/c.png", in the order of their bytes. Links
/// to nothing, pipes and the like are among it. *Throws*: InputError when it is missing or unreadable, or links lead in
/// a circle.
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// Replaces a file so that a reader sees the old content or the new, never a part: writes beside it, fsyncs, renames.
/// *Throws*: ResourceError (disk full, no permission); the old file is then untouched. Also if the disk cannot keep the
/// new name: a reader then sees the new content, which a power loss may undo.
void replace_file(const std::filesystem::path& path, std::string_view content);

/// The same without the wait for the disk: for what belongs to one run, which a power loss ends anyway.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Whether a process that is no more left this while it replaced or wrote a file: its name is the one beside the file.
bool is_half_written(const std::filesystem::path& path);

/// Creates a directory and its parents.
/// *Throws*: ResourceError.
void make_directories(const std::filesystem::path& path);

/// The same; those that it creates survive a power loss.
void make_lasting_directories(const std::filesystem::path& path);

/// Copies a folder with all that is in it; links stay links. *Throws*: ResourceError.
void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// Holds a folder alone among processes of lockstep, as long as it lives; waits for the one that holds it. File systems
/// without locks give none. *Throws*: ResourceError.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// A file that only grows. Every append reaches the operating system before it returns, so it outlives this process.
class AppendFile {
 public:
  /// Creates `path`, which must not exist yet.
  /// *Throws*: ResourceError.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  /// *Throws*: ResourceError.
  void append(std::string_view bytes);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace lockstep
