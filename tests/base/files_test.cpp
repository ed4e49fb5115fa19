#include "harness/base/files.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"

#include "tests/support/support.h"

namespace lockstep {
namespace {

using test::Scratch;

std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

template <typename Expected, typename Action>
Problem problem_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.problem();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A file system of 64 KiB on a folder; why it cannot be had, otherwise.
class TinyDisk {
 public:
  TinyDisk() {
    if (::mount("tmpfs", scratch_.path().c_str(), "tmpfs", 0, "size=64k") != 0) why_not_ = std::strerror(errno);
  }
  ~TinyDisk() {
    if (!why_not_) ::umount2(scratch_.path().c_str(), MNT_DETACH);
  }
  const std::optional<std::string>& why_not() const { return why_not_; }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
  std::optional<std::string> why_not_;
};

TEST(Files, ReadsEveryByte) {
  const Scratch scratch;
  std::string content;
  for (int i = 0; i < 1000; ++i) content += static_cast<char>(i);
  EXPECT_EQ(read_file(scratch.write("f", content)), content);
  EXPECT_EQ(read_file(scratch.write("empty", "")), "");
}

TEST(Files, NamesWhatCannotBeRead) {
  const Scratch scratch;
  const Problem missing = problem_of<InputError>([&] { read_file(scratch.path() / "none"); });
  EXPECT_EQ(missing.where, (scratch.path() / "none").string());
  EXPECT_NE(missing.what.find("No such file"), std::string::npos);
  const Problem directory = problem_of<InputError>([&] { read_file(scratch.path()); });
  EXPECT_EQ(directory.actual, "a directory");
}

// Address 0 of this process is not mapped, so that the read itself fails.
TEST(Files, InputErrorWhileReadingIsNoEndOfFile) {
  EXPECT_EQ(problem_of<InputError>([] { read_file("/proc/self/mem"); }).where, "/proc/self/mem");
}

TEST(Files, AFileOfATerabyteIsRefusedByItsSize) {
  const Scratch scratch;
  const auto file = scratch.write("f", "x");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);  // sparse
  const Problem problem = problem_of<InputError>([&] { read_file(file); });
  EXPECT_EQ(problem.where, file.string());
  EXPECT_EQ(problem.expected, "at most 68719476736 bytes");
  EXPECT_EQ(problem.actual, "1099511627776 bytes");
  EXPECT_EQ(problem_of<InputError>([&] { read_pieces(file, [](std::string_view) {}); }).actual, problem.actual);
  EXPECT_EQ(problem_of<InputError>([&] { read_file(scratch.write("g", "xyz"), 2); }).actual, "3 bytes");
}

// The memory that a process may have stands for that of a machine.
TEST(Files, AFileThatDoesNotFitIntoMemoryIsNoCrash) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends a process that asks for too much memory";
#endif
  const Scratch scratch;
  const auto file = scratch.write("f", "x");
  std::filesystem::resize_file(file, std::uintmax_t{32} << 30);
  const pid_t reader = ::fork();
  if (reader == 0) {
    const rlimit limit{.rlim_cur = rlim_t{16} << 30, .rlim_max = rlim_t{16} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      read_file(file);
    } catch (const ResourceError& error) {
      ::_exit(error.problem().where == file.string() ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(reader, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Files, ReplaceLeavesNothingBeside) {
  const Scratch scratch;
  const auto file = scratch.path() / "f";
  replace_file(file, "one");
  replace_file(file, std::string("t\0wo", 4));
  EXPECT_EQ(read_file(file), std::string("t\0wo", 4));
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"f"});
}

TEST(Files, ReplaceKeepsAnOpenReaderOnTheOldContent) {
  const Scratch scratch;
  const auto file = scratch.write("f", "old");
  std::FILE* reader = std::fopen(file.c_str(), "r");
  replace_file(file, "new content");
  char buffer[16] = {};
  EXPECT_EQ(std::fread(buffer, 1, sizeof buffer, reader), 3u);
  EXPECT_STREQ(buffer, "old");
  std::fclose(reader);
}

TEST(Files, ReplaceCannotReplaceADirectory) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "d");
  EXPECT_EQ(problem_of<ResourceError>([&] { replace_file(scratch.path() / "d", "x"); }).where,
            (scratch.path() / "d").string());
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"d"});
}

TEST(Files, ReplaceInAMissingFolderFails) {
  const Scratch scratch;
  problem_of<ResourceError>([&] { replace_file(scratch.path() / "none" / "f", "x"); });
  EXPECT_TRUE(names_in(scratch.path()).empty());
}

/// What stands beside a file while it is replaced: the writer is killed at the rename's fsync by a limit on its size.
std::string left_beside(const std::filesystem::path& file) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    const rlimit limit{.rlim_cur = 10, .rlim_max = 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);  // SIGXFSZ ends it in the midst of its file
    replace_file(file, std::string(100, 'x'));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(writer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  for (const std::string& name : names_in(file.parent_path())) {
    if (name != file.filename()) return name;
  }
  return "";
}

// In a folder where others may write, too, the name of the new file cannot be foreseen: a link that waits there would
// be written through.
TEST(Files, ReplaceTakesNoLinkThatIsPlantedBesideTheFile) {
  const Scratch scratch;
  const auto file = scratch.path() / "f", victim = scratch.write("elsewhere/victim", "untouched");
  std::filesystem::create_symlink(victim, scratch.path() / ("f.new-" + std::to_string(::getpid())));
  replace_file(file, "ours");
  write_file(file, "ours, again");
  EXPECT_EQ(read_file(victim), "untouched");
  EXPECT_EQ(read_file(file), "ours, again");
  EXPECT_FALSE(std::filesystem::is_symlink(file));
}

TEST(Files, AKilledWriterLeavesAFileOfAnotherNameEachTime) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "one");
  std::filesystem::create_directories(scratch.path() / "two");
  const auto first = scratch.path() / "one" / "f", second = scratch.path() / "two" / std::string(255, 'n');
  const std::string left = left_beside(first);
  EXPECT_TRUE(is_half_written(first.parent_path() / left)) << left;
  EXPECT_TRUE(is_half_written(second.parent_path() / left_beside(second))) << "of a name as long as may be";
  EXPECT_EQ(left.size(), left.rfind('-') + 1 + 16) << left;
  for (const char* other : {"f", "f.new-", "f.new-0", "f.new-4711", "f.new-4711-xyz", "f.new-4711-0123456789abcdeX"})
    EXPECT_FALSE(is_half_written(first.parent_path() / other)) << other;
}

TEST(Files, ReplaceOnAFullDiskKeepsTheOldFile) {
  const TinyDisk disk;
  if (disk.why_not()) GTEST_SKIP() << "cannot mount a tmpfs (needs root): " << *disk.why_not();
  const auto file = disk.path() / "f";
  replace_file(file, "old");
  const Problem problem = problem_of<ResourceError>([&] { replace_file(file, std::string(100'000, 'x')); });
  EXPECT_EQ(problem.where, file.string());
  EXPECT_NE(problem.what.find("No space left"), std::string::npos) << problem.what;
  EXPECT_NE(problem.next.find("free disk space"), std::string::npos);
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(names_in(disk.path()), std::vector<std::string>{"f"});
  EXPECT_NO_THROW(replace_file(file, std::string(10'000, 'x'))) << "the space of the failed attempt is still taken";
}

TEST(Files, AppendOnAFullDiskFailsAndKeepsWhatWasThere) {
  const TinyDisk disk;
  if (disk.why_not()) GTEST_SKIP() << "cannot mount a tmpfs (needs root): " << *disk.why_not();
  AppendFile file(disk.path() / "f");
  file.append("first line\n");
  const Problem problem = problem_of<ResourceError>([&] { file.append(std::string(100'000, 'x')); });
  EXPECT_NE(problem.what.find("No space left"), std::string::npos) << problem.what;
  EXPECT_EQ(read_file(disk.path() / "f").substr(0, 12), "first line\nx");
}

TEST(Files, MakeDirectoriesMakesParents) {
  const Scratch scratch;
  make_directories(scratch.path() / "a/b/c");
  make_directories(scratch.path() / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(scratch.path() / "a/b/c"));
  scratch.write("file", "");
  problem_of<ResourceError>([&] { make_directories(scratch.path() / "file/below"); });
  problem_of<ResourceError>([&] { make_directories(scratch.path() / "file"); });
}

TEST(Files, AppendReachesReadersAtOnce) {
  const Scratch scratch;
  AppendFile file(scratch.path() / "f");
  file.append("one\n");
  EXPECT_EQ(read_file(file.path()), "one\n");
  AppendFile moved(std::move(file));
  moved.append("two\n");
  EXPECT_EQ(read_file(moved.path()), "one\ntwo\n");
}

TEST(Files, AppendOutlivesTheProcess) {
  const Scratch scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    AppendFile file(scratch.path() / "f");
    file.append("kept");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(scratch.path() / "f"), "kept");
}

TEST(Files, AppendNeverTakesAFileThatIsThere) {
  const Scratch scratch;
  const auto file = scratch.write("f", "old");
  const Problem problem = problem_of<ResourceError>([&] { AppendFile taken(file); });
  EXPECT_EQ(problem.where, file.string());
  EXPECT_NE(problem.what.find("File exists"), std::string::npos);
  EXPECT_EQ(read_file(file), "old");
}

}  // namespace
}  // namespace lockstep
