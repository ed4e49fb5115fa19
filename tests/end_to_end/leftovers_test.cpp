// Temporary folders of red and killed runs do not pile up, and results that nobody can read are no pass.
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

class LeftoversEndToEnd : public EndToEnd {
 protected:
  fs::path base() const { return scratch_.path() / "tmp"; }

  /// A folder as a run leaves it, so old and so large.
  fs::path leftover(const std::string& name, hours age, std::uintmax_t bytes = 0,
                    const std::string& marker = ".lockstep-traces") const {
    const fs::path file = scratch_.write("tmp/" + name + "/" + marker, "");
    std::ofstream(file.parent_path() / "trace") << "";
    fs::resize_file(file.parent_path() / "trace", bytes);
    fs::last_write_time(file, fs::file_time_type::clock::now() - age);
    return file.parent_path();
  }

  Outcome lockstep(std::vector<std::string> arguments) const {
    fs::create_directories(base());
    arguments.insert(arguments.begin(), {"/usr/bin/env", "TMPDIR=" + base().string(), lockstep_program()});
    return run_program(arguments);
  }

  static Json one_rank() { return scenario({{"world_size", 1}, {"checks", Json::array({check("ledger")})}}); }

  /// A red run that costs nothing.
  Outcome red_run() const { return lockstep({"run", write(one_rank()), "--worker", script_worker("exit 9")}); }

  std::size_t folders() const {
    const fs::directory_iterator entries(base());
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }
};

TEST_F(LeftoversEndToEnd, OldOnesOfOursAreRemovedAndNothingElse) {
  const fs::path old = leftover("lockstep-aaaaaa", hours(24 * 8)), young = leftover("lockstep-bbbbbb", hours(24 * 6));
  const fs::path strange = leftover("lockstep-cccccc", hours(24 * 80), 0, "something");
  const fs::path other = leftover("other-dddddd", hours(24 * 80)), used = leftover("lockstep-eeeeee", hours(24 * 80));
  const fs::path target = leftover("target", hours(24 * 80)), link = base() / "lockstep-ffffff";
  fs::create_directory_symlink(target, link);
  const int lock = ::open((used / ".lockstep-traces").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);  // as a living lockstep does

  const Outcome red = red_run();
  ::close(lock);
  EXPECT_EQ(red.exit_code, 1) << red.out << red.err;
  EXPECT_FALSE(fs::exists(old));
  for (const fs::path& kept : {young, strange, other, used, target, link}) EXPECT_TRUE(fs::exists(kept)) << kept;
  EXPECT_EQ(folders(), 7U) << "six, and that of the red run";
  expect_says(red.err, {"the traces are in " + (base() / "lockstep-").string()});

  const Outcome doctor = lockstep({"doctor", write(scenario())});
  expect_says(doctor.out, {"leftovers", "3 folders", base().string(), "7 days"});
}

TEST_F(LeftoversEndToEnd, TheOldestGoWhereAllTakeTooMuch) {
  const std::uintmax_t gib = std::uintmax_t{1} << 30;
  const fs::path oldest = leftover("lockstep-aaaaaa", hours(30), 3 * gib);
  const fs::path middle = leftover("lockstep-bbbbbb", hours(20), 1 * gib),
                 fresh = leftover("lockstep-cccccc", hours(0), 2 * gib);
  red_run();
  EXPECT_FALSE(fs::exists(oldest));
  EXPECT_TRUE(fs::exists(middle));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(LeftoversEndToEnd, AGreenOrRefusedCallLeavesNothing) {
  EXPECT_EQ(lockstep({"run", write(scenario())}).exit_code, 0);
  EXPECT_EQ(lockstep({"run", write(scenario()), "--set", "train.steps=0"}).exit_code, 2);
  EXPECT_EQ(folders(), 0U);
}

/// /dev/full takes nothing. The link keeps the device safe from a lockstep that would replace it.
TEST_F(LeftoversEndToEnd, AResultThatCannotBeWrittenIsNoPass) {
  const std::string file = write(one_rank()), link = scratch_.path() / "full";
  fs::create_symlink("/dev/full", link);
  const Outcome json = run_lockstep({"run", file, "--json", link});
  EXPECT_EQ(json.exit_code, 4) << json.out << json.err;
  expect_says(json.err, {"No space left on device", link});
  EXPECT_TRUE(fs::is_symlink(link));
  for (const char* command :
       {"run \"$1\"", "run \"$1\" --json -", "--version", "--help", "explain", "diff \"$2\" \"$2\""}) {
    SCOPED_TRACE(command);
    const Result good = run_file(file);
    const Outcome outcome = run_program({"/bin/sh", "-c", std::string("exec \"$0\" ") + command + " >/dev/full",
                                         lockstep_program(), file, good.out / "tiny/main/0"});
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    expect_says(outcome.err, {"could not be written"});
  }
}

TEST_F(LeftoversEndToEnd, AResultMayGoIntoAPipe) {
  const Outcome outcome = run_program(
      {"/bin/sh", "-c", "mkfifo \"$2\"; \"$0\" run \"$1\" --json \"$2\" >/dev/null 2>&1 & timeout 60 tail -n 1 \"$2\"",
       lockstep_program(), write(one_rank()), scratch_.path() / "pipe"});
  EXPECT_EQ(outcome.out, "}\n");
}

}  // namespace
}  // namespace lockstep::test
