// Where the worker of an installation is.
#include "harness/app/worker_program.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInPackages = "lib/python3.11/site-packages/lockstep_worker/lockstep-worker";

TEST(WorkerProgram, IsTheOneThatPipPutIntoSitePackages) {
  const test::Scratch prefix;
  const fs::path command = prefix.write("bin/lockstep-worker", "#!/usr/bin/python3\n");
  EXPECT_EQ(program_behind(command), command);
  const fs::path program = prefix.write(kInPackages, "\177ELF");
  fs::create_directory_symlink("lib", prefix.path() / "lib64");
  EXPECT_EQ(program_behind(command), fs::canonical(program));
}

TEST(WorkerProgram, IsTheCommandWhereThatIsAProgram) {
  const test::Scratch prefix;
  const fs::path command = prefix.write("bin/lockstep-worker", "\177ELF");
  prefix.write(kInPackages, "\177ELF");
  EXPECT_EQ(program_behind(command), command);
}

TEST(WorkerProgram, IsTheCommandWhereSeveralPythonsHaveOne) {
  const test::Scratch prefix;
  const fs::path command = prefix.write("bin/lockstep-worker", "#!/usr/bin/python3\n");
  prefix.write(kInPackages, "\177ELF");
  prefix.write("lib/python3.12/dist-packages/lockstep_worker/lockstep-worker", "\177ELF");
  EXPECT_EQ(program_behind(command), command);
}

}  // namespace
}  // namespace lockstep::app
