// A page for a pull request's comment or a step summary: a table of scenarios, then a block for each failure.
#include <algorithm>

#include "harness/base/text.h"
#include "harness/report/findings.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::Status;

/// A comment of GitHub holds 65,536 characters.
constexpr std::size_t kMostOfAPage = 60'000;

/// The table may take half of it.
constexpr std::size_t kMostRows = 200;

/// One line, in which no character makes a table, a link, a mention or HTML.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : printable(without_middle(text))) {
    if (std::string_view("|<>&`*_[]#@~$\\").find(c) != std::string_view::npos) {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    } else {
      out += c;
    }
  }
  return out;
}

/// Text as it stands, line by line, in a block that nothing in it can end.
std::string quoted(const std::string& text) {
  std::string lines, fence = "```";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += printable(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  while (lines.find(fence) != std::string::npos) fence += '`';
  return fence + "\n" + lines + fence + "\n";
}

/// A row of the table.
std::string row_of(const ScenarioFindings& of) {
  const auto agrees = [](const Finding& finding) {
    return finding.status == Status::kAgree && !finding.fails_as_expected();
  };
  const auto count = [&](const auto& wanted) {
    return std::to_string(std::count_if(of.findings.begin(), of.findings.end(), wanted));
  };
  return "| " + plain(of.scenario) + " | " + std::string(name_of(of.status)) + " | " + count(agrees) + " of " +
         std::to_string(of.findings.size()) + " | " +
         count([](const Finding& finding) { return finding.fails_as_expected(); }) + " |\n";
}

std::string block_of(const std::string& scenario, const Finding& finding) {
  return "\n**" + std::string(name_of(finding.status)) + "**: " + plain(scenario) + ", " + plain(finding.name) +
         "\n\n" + plain(finding.summary) + "\n\n" + (finding.details.empty() ? "" : quoted(finding.details));
}

class MarkdownRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    const std::vector<ScenarioFindings> all = findings_of(verdict, plan);
    std::string out = "### lockstep: " + std::string(name_of(verdict.status())) +
                      "\n\n| scenario | verdict | holds | fails as expected |\n|---|---|---|---|\n";
    const std::size_t rows = std::min(all.size(), kMostRows);
    for (std::size_t i = 0; i < rows; ++i) out += row_of(all[i]);
    if (rows < all.size()) out += "\n" + std::to_string(all.size() - rows) + " more scenarios are not listed.\n";
    std::size_t left_out = 0;
    for (const ScenarioFindings& of : all) {
      for (const Finding& finding : of.findings) {
        if (finding.status == Status::kAgree) continue;
        const std::string block = block_of(of.scenario, finding);
        if (out.size() + block.size() <= kMostOfAPage) {
          out += block;
        } else {
          ++left_out;
        }
      }
    }
    if (left_out > 0) out += "\n" + std::to_string(left_out) + " more failures are left out: the page is full.\n";
    return out;
  }
};

}  // namespace

std::unique_ptr<Renderer> make_markdown_renderer() { return std::make_unique<MarkdownRenderer>(); }

}  // namespace lockstep::report
