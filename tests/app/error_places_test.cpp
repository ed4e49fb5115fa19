// Errors as they are told: where a key stands, and which file was meant.
#include "harness/app/error_places.h"

#include <gtest/gtest.h>

#include "harness/app/options.h"

#include "tests/support/support.h"

namespace lockstep::test {
namespace {

using app::as_told;

class ErrorPlaces : public testing::Test {
 protected:
  std::string where(const std::string& behind, const std::string& actual = "") const {
    return as_told(InputError({.what = "x", .where = file_ + behind, .actual = actual})).problems.at(0).where;
  }

  Scratch scratch_;
  std::string file_ = scratch_
                          .write("own.jsonc", R"({
  "train": {"steps": 3}, // three
  "variants": {
    "b": {"train": {"steps": 4}}
  },
  "checks": [{"that": "equal"}]
})")
                          .string();
};

TEST_F(ErrorPlaces, NameLineAndColumnOfAKey) {
  EXPECT_EQ(where(": train.steps"), file_ + ": train.steps, at " + file_ + ":2:22");
  EXPECT_EQ(where(": train.steps (variant 'a')"), file_ + ": train.steps (variant 'a'), at " + file_ + ":2:22");
  EXPECT_EQ(where(": train.steps (variant 'b')"), file_ + ": train.steps (variant 'b'), at " + file_ + ":4:30");
  EXPECT_EQ(where(" (variant 'b'): train.steps"), file_ + " (variant 'b'): train.steps, at " + file_ + ":4:30");
  EXPECT_EQ(where(": checks.0"), file_ + ": checks.0, at " + file_ + ":6:14");
  EXPECT_EQ(where(": checks.0", "'that'"), file_ + ": checks.0, at " + file_ + ":6:23") << "the unknown key itself";
  EXPECT_EQ(where("", "'checks'"), file_ + ", at " + file_ + ":6:13") << "of the whole file";
}

TEST_F(ErrorPlaces, AreLeftOutWhereTheFileHasNone) {
  for (const char* behind : {": train.lr", "", ": a sentence of words"}) EXPECT_EQ(where(behind), file_ + behind);
  scratch_.write("own.jsonc", "no JSON");
  EXPECT_EQ(where(": train.steps"), file_ + ": train.steps");
}

TEST_F(ErrorPlaces, NameTheFileThatWasMeant) {
  const auto next = [&](const std::string& name) {
    return as_told(InputError({.what = "x", .where = (scratch_.path() / name).string()})).problems.at(0).next;
  };
  EXPECT_EQ(next("onw.jsonc"), "did you mean '" + file_ + "'?");
  for (const char* name : {"own.jsonc", "other.txt", "nowhere/own.jsonc"}) EXPECT_EQ(next(name), "") << name;
  for (const char* name : {"own.jsonc:2:16", "rank1.jsonl"}) {  // a place in a file; a file that is lost
    scratch_.write("rank0.jsonl", "");
    EXPECT_EQ(next(name), "") << name;
  }
  const Error told = InputError({.what = "x", .where = (scratch_.path() / "onw.jsonc").string(), .next = "wait"});
  EXPECT_EQ(as_told(told).problems.at(0).next, "wait");
}

TEST(OneOf, NamesTheValueThatWasMeant) {
  std::string wrong = "torchrnu", right = "fork";
  const CLI::Validator check = app::one_of({"fork", "torchrun"});
  EXPECT_EQ(check(right), "");
  EXPECT_EQ(check(wrong), "'torchrnu' is none of fork, torchrun; did you mean 'torchrun'?");
}

}  // namespace
}  // namespace lockstep::test
