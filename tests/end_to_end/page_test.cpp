// The page of --report html in a real browser: Debian's chromium, without a display and without a network.
#include "harness/base/files.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), by);
}

class ReportPage : public EndToEnd {
 protected:
  void SetUp() override {
    const Json other_rate = test::at("train.optimizer.lr", 0.2);
    const Json scenario = EndToEnd::scenario(
        {{"variants", {{"a", Json::object()}, {"b", other_rate}, {"one", {{"world_size", 1}}}}},
         {"checks",
          {check("equal", {{"variants", {"a", "b"}}}), check("rounding", {{"variants", {"a", "one"}}}),
           check("equal", {{"variants", {"a", "one"}},
                           {"expect", {{"status", "divergence"}, {"reason", "sums of <b>two</b> parts"}}}})}}});
    page_ = scratch_.path() / "page.html";
    const Outcome outcome = run_lockstep({"run", write(scenario), "--report", "html=" + page_.string()});
    ASSERT_EQ(outcome.exit_code, 1) << outcome.err;
    const std::string kept = "the traces are in ";
    const std::size_t at = outcome.err.find(kept);
    ASSERT_NE(at, std::string::npos) << outcome.err;
    folder_ = outcome.err.substr(at + kept.size(), outcome.err.find('\n', at) - at - kept.size());
    fs::remove_all(folder_);
  }

  static bool has_browser() { return run_program({"sh", "-c", "command -v chromium"}).exit_code == 0; }

  /// What chromium prints of a page.
  std::string browse(const fs::path& page, const std::vector<std::string>& options) const {
    std::vector<std::string> command = {"chromium", "--headless", "--no-sandbox", "--disable-gpu",
                                        "--user-data-dir=" + (scratch_.path() / "profile").string()};
    command.insert(command.end(), options.begin(), options.end());
    command.push_back("file://" + page.string());
    const Outcome outcome = run_program(command, 60);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  fs::path page_;
  fs::path folder_;  ///< of the traces
};

TEST_F(ReportPage, HoldsTheVerdictAndNoTemporaryFolder) {
  const std::string page = read_file(page_);
  expect_says(page, {"<title>lockstep: divergence</title>", "checks.0 equal (a, b)", "lr.scaled_wrongly",
                     "<dt>remedy</dt>", "replay: a/0 reproduces bit for bit", "<code class=\"command\">lockstep run ",
                     "checks.2 equal (a, one): sums of &#60;b&#62;two&#60;/b&#62; parts",
                     "Map of checks.1 rounding (a, one)", "<b>first difference</b>", "<figcaption>Loss</figcaption>"});
  EXPECT_LT(page.size(), 2U << 20U);
  EXPECT_EQ(page.find(folder_.string()), std::string::npos) << folder_;
}

TEST_F(ReportPage, ShowsAllInABrowser) {
  if (!has_browser()) GTEST_SKIP() << "there is no chromium on PATH; ci/setup --tests installs it";
  const std::string page = read_file(page_);

  const std::size_t policy = page.find("content=\"default-src"), end = page.find('>', policy);
  const std::string jenkins = "content=\"default-src 'none'; img-src 'self'; style-src 'self'\"";
  const fs::path bare = scratch_.write("bare.html", replaced(page, page.substr(policy, end - policy), jenkins));
  const std::string without = browse(bare, {"--dump-dom"});
  EXPECT_EQ(times(without, "<article"), 2U) << without.substr(0, 4000);
  EXPECT_EQ(times(without, "type=\"search\""), 0U) << "tools that do nothing are not shown";
  expect_says(without, {"id=\"s0-c0-first\"", "badge kept\">fails as expected", "<b>first difference</b>"});

  EXPECT_EQ(times(browse(page_, {"--dump-dom"}), "type=\"search\""), 4U)
      << "the page's own policy lets its script run: tools for the scenarios and three maps";

  const std::string use =
      "<script>const search = document.querySelector('.map .tools input'); search.value = 'bias';"
      "search.dispatchEvent(new Event('input'));</script></body>";
  const fs::path used =
      scratch_.write("used.html", replaced(replaced(page, "http-equiv=", "data-was="), "</body>", use));
  const std::string filtered = browse(used, {"--dump-dom"});
  const std::string map = filtered.substr(std::min(filtered.find("id=\"s0-c0\""), filtered.size()));
  const std::string first = map.substr(0, map.find("</section>"));
  EXPECT_GT(times(first, "hidden=\"\""), 4U) << "all rows but those of biases";
  EXPECT_GT(times(first, "data-has="), times(first, "hidden=\"\"")) << first;
}

TEST_F(ReportPage, IsDrawnInLightInDarkAndOnPaper) {
  if (!has_browser()) GTEST_SKIP() << "there is no chromium on PATH; ci/setup --tests installs it";
  const fs::path light = scratch_.path() / "light.png", dark = scratch_.path() / "dark.png",
                 paper = scratch_.path() / "page.pdf";
  browse(page_, {"--screenshot=" + light.string()});
  browse(page_, {"--screenshot=" + dark.string(), "--force-dark-mode"});
  browse(page_, {"--print-to-pdf=" + paper.string()});
  for (const fs::path& file : {light, dark, paper}) ASSERT_TRUE(fs::exists(file)) << file;
  EXPECT_GT(fs::file_size(light), 10'000U);
  EXPECT_NE(read_file(light), read_file(dark)) << "dark mode has colours of its own";
  EXPECT_TRUE(read_file(paper).starts_with("%PDF")) << paper;
}

}  // namespace
}  // namespace lockstep::test
