// The promises of recorder.h on the binary: what it exports, what it needs, and that nothing of its ABI moves.
#include <cstddef>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <lockstep/recorder.h>

#include "harness/base/files.h"

#include "tests/support/support.h"

namespace lockstep::test {
namespace {

// ABI 1. To change one of these is to break programs that are compiled: LOCKSTEP_RECORDER_ABI then grows.
static_assert(sizeof(lockstep_status) == 4 && LOCKSTEP_OK == 0 && LOCKSTEP_MISUSE == 1 && LOCKSTEP_SYSTEM == 2 &&
              LOCKSTEP_INTERNAL == 3);
static_assert(sizeof(lockstep_dtype) == 4 && LOCKSTEP_BOOL == 0 && LOCKSTEP_UINT8 == 1 && LOCKSTEP_INT8 == 2 &&
              LOCKSTEP_INT16 == 3 && LOCKSTEP_INT32 == 4 && LOCKSTEP_INT64 == 5 && LOCKSTEP_FLOAT16 == 6 &&
              LOCKSTEP_BFLOAT16 == 7 && LOCKSTEP_FLOAT32 == 8 && LOCKSTEP_FLOAT64 == 9);
static_assert(offsetof(lockstep_tensor, dtype) == 0 && offsetof(lockstep_tensor, dimensions) == 8 &&
              offsetof(lockstep_tensor, shape) == 16 && offsetof(lockstep_tensor, strides) == 24 &&
              offsetof(lockstep_tensor, data) == 32 && sizeof(lockstep_tensor) == 40);
static_assert(offsetof(lockstep_recorder_config, size) == 0 && offsetof(lockstep_recorder_config, folder) == 8 &&
              offsetof(lockstep_recorder_config, rank) == 16 && offsetof(lockstep_recorder_config, world_size) == 24 &&
              offsetof(lockstep_recorder_config, header) == 32 && offsetof(lockstep_recorder_config, channels) == 40 &&
              offsetof(lockstep_recorder_config, channel_count) == 48 &&
              offsetof(lockstep_recorder_config, every) == 56);
static_assert(LOCKSTEP_RECORDER_ABI == 1);

const std::string kLibrary = RECORDER_LIBRARY;

/// Symbols that programs can link to, of a type that `types` names: "T".
std::set<std::string> exported(const std::string& library) {
  const Outcome outcome = run_program({"nm", "-D", "--defined-only", library}, 60);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::set<std::string> names;
  for (std::string address, type, name; lines >> address >> type >> name;)
    names.insert(type + " " + name.substr(0, name.find('@')));
  return names;
}

TEST(RecorderLibrary, ExportsTheFunctionsOfTheHeaderAndNothingElse) {
  const std::string header = read_file(source_root() / "harness/record/include/lockstep/recorder.h");
  const std::regex declaration("LOCKSTEP_RECORDER_API [^;(]*?(lockstep_recorder_[a-z_]+)\\(");
  std::set<std::string> declared = {"A LOCKSTEP_RECORDER_1"};
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at)
    declared.insert("T " + (*at)[1].str());
  EXPECT_EQ(declared.size(), 20U);
  EXPECT_EQ(exported(kLibrary), declared);
}

TEST(RecorderLibrary, LinksNoLibTorchAndIsVersioned) {
  const Outcome outcome = run_program({"readelf", "-dW", kLibrary}, 60);
  EXPECT_NE(outcome.out.find("Library soname: [liblockstep_recorder.so." + std::to_string(LOCKSTEP_RECORDER_ABI) + "]"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("(NEEDED)"), std::string::npos);
  for (const char* foreign : {"torch", "c10", "cuda", "nccl", "RPATH", "RUNPATH"})
    EXPECT_EQ(outcome.out.find(foreign), std::string::npos) << foreign << "\n" << outcome.out;
}

TEST(RecorderLibrary, KnowsItsVersion) { EXPECT_EQ(lockstep_recorder_abi(), LOCKSTEP_RECORDER_ABI); }

TEST(RecorderLibrary, ThePageQuotesTheExampleThatIsTested) {
  const std::string page = read_file(source_root() / "docs/recording.md");
  const std::string example = read_file(source_root() / "docs/examples/record.c");
  EXPECT_NE(page.find("```c\n" + example + "```"), std::string::npos)
      << "docs/recording.md shows another program than docs/examples/record.c";
}

}  // namespace
}  // namespace lockstep::test
