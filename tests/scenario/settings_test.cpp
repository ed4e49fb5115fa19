#include "harness/scenario/settings.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

// The origin of each value, whichever way it takes into a variant.

namespace lockstep::scenario::test {
namespace {

using lockstep::test::Scratch;

/// "value, origin" by path. The file is called "s.json", wherever it is.
std::map<std::string, std::string> settings(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Scratch scratch;
  const std::string file = scratch.write("s.json", text).string();
  std::map<std::string, std::string> found;
  for (const Setting& setting : settings_of(file, overrides)) {
    const bool is_of_file = setting.origin.starts_with(file);
    found[setting.path] =
        setting.value.dump() + ", " + (is_of_file ? "s.json" + setting.origin.substr(file.size()) : setting.origin);
  }
  return found;
}

constexpr const char* kText = R"({
  "name": "tiny", /* two: */ "description": "d",
  "train": {
    "model": {"kind": "mlp", "hidden": [8, 4]},
    "data": {"kind": "synthetic"},
    "batch": {"global": 8},
    "optimizer": {"kind": "adam", "lr": 0.25, "eps": 1e-6, "weight_decay": 0.5},
    "steps": 2
  },
  // Comments count as lines.
  "variants": {
    "one": {},
    "two": {"world_size": 2, "train": {"optimizer": {"kind": "sgd", "lr": 2}, "batch": {"per_rank": 4}}}
  },
  "checks": [{"that": "finishes"}]
})";

TEST(Settings, SayWhereEachValueStands) {
  const auto found = settings(kText);
  EXPECT_EQ(found.at("name"), "\"tiny\", s.json:2:11");
  EXPECT_EQ(found.at("description"), "\"d\", s.json:2:45");
  EXPECT_EQ(found.at("repeats"), "1, default");
  EXPECT_EQ(found.at("variants.one.world_size"), "1, default");
  EXPECT_EQ(found.at("variants.two.world_size"), "2, s.json:13:27");
  EXPECT_EQ(found.at("variants.one.train.optimizer.lr"), "0.25, s.json:7:41");
  EXPECT_EQ(found.at("variants.one.train.model.hidden"), "[8,4], s.json:4:41");
  EXPECT_EQ(found.at("variants.one.train.batch.global"), "8, s.json:6:25");
  EXPECT_EQ(found.at("variants.two.train.batch.per_rank"), "4, s.json:13:101");
}

TEST(Settings, OfAnotherKindAreNotThoseOfTheKindBefore) {
  const auto found = settings(kText);
  EXPECT_EQ(found.at("variants.two.train.optimizer.kind"), "\"sgd\", s.json:13:62");
  EXPECT_EQ(found.at("variants.one.train.optimizer.weight_decay"), "0.5, s.json:7:76");
  EXPECT_EQ(found.at("variants.two.train.optimizer.weight_decay"), "0, default");
  EXPECT_EQ(found.count("variants.two.train.optimizer.eps"), 0U);
  EXPECT_EQ(found.count("variants.two.train.batch.global"), 0U);
}

TEST(Settings, NameTheOverride) {
  const auto found = settings(kText, {"train.optimizer.lr=1", "train.optimizer.lr=0.5", "train.model.hidden.1=2",
                                      "variants.two.train.optimizer={\"kind\": \"sgd\", \"lr\": 3}"});
  EXPECT_EQ(found.at("variants.one.train.optimizer.lr"), "0.5, --set train.optimizer.lr=0.5");
  EXPECT_EQ(found.at("variants.one.train.optimizer.eps"), "1e-06, s.json:7:54");
  EXPECT_EQ(found.at("variants.one.train.model.hidden"), "[8,2], --set train.model.hidden.1=2");
  EXPECT_EQ(found.at("variants.two.train.optimizer.lr"),
            "3, --set variants.two.train.optimizer={\"kind\": \"sgd\", \"lr\": 3}");
}

TEST(Settings, OfAMatrixStandInItsLists) {
  const auto found = settings(R"({
  "name": "tiny", "description": "d",
  "train": {"model": {"kind": "mlp"}, "data": {"kind": "synthetic"}, "batch": {"global": 8},
            "optimizer": {"kind": "sgd", "lr": 1}, "steps": 2},
  "matrix": {"train.optimizer.lr": [0.1,
                                    0.2], "world_size": [1, 2]},
  "checks": [{"that": "laws"}]
})");
  EXPECT_EQ(found.at("variants.lr=0.2-world_size=2.train.optimizer.lr"), "0.2, s.json:6:37");
  EXPECT_EQ(found.at("variants.lr=0.1-world_size=2.world_size"), "2, s.json:6:61");
  EXPECT_EQ(found.at("variants.lr=0.1-world_size=1.train.record.slopes"), "true, a check of laws");
}

}  // namespace
}  // namespace lockstep::scenario::test
