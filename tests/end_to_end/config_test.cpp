// lockstep config show: the command around scenario/settings.h.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class Config : public EndToEnd {};

TEST_F(Config, IsShownWithItsOrigin) {
  const std::string file = write(scenario());
  const std::vector<std::string> words = {"config", "show", file, "--set", "train.optimizer.lr=0.5"};
  const auto shown = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run_lockstep(all);
  };
  EXPECT_EQ(shown({"--only", "optimizer.lr"}).out, "variants.main.train.optimizer.lr = 0.5\n");
  expect_says(shown({"--origin", "--only", "train"}).out,
              {"variants.main.train.optimizer.lr = 0.5  # --set train.optimizer.lr=0.5\n",
               "variants.main.train.optimizer.nesterov = false  # default\n", "  # " + file + ":"});
  const Json result = Json::parse(shown({"--only", "world_size", "--json", "-"}).out);
  EXPECT_EQ(result.at("format"), "lockstep.config/1");
  EXPECT_EQ(result.at("settings").at(0).at("path"), "variants.main.world_size");
  EXPECT_EQ(result.at("settings").at(0).at("value"), 2);
  const Outcome wrong = shown({"--only", "optimzer"});
  EXPECT_EQ(wrong.exit_code, 2);
  expect_says(wrong.err, {"no setting has this path", "did you mean 'optimizer'?"});
}

}  // namespace
}  // namespace lockstep::test
