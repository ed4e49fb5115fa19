// One page of HTML for people. All of it is in the tags: style and script only add.
#include <algorithm>
#include <cstdio>
#include <span>

#include "harness/base/build_id.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"
#include "harness/report/findings.h"
#include "harness/report/html_chart.h"
#include "harness/report/html_map.h"
#include "harness/report/html_page.h"
#include "harness/report/html_text.h"
#include "harness/report/lines.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::CheckReport;
using judge::RunReport;
using judge::Status;

/// Bytes that pictures may take, so that a page of any gate can be attached to a build.
constexpr std::size_t kMostOfPictures = 1'300'000;

/// Rows and findings of a page take less than the rest of 2 MiB.
constexpr std::size_t kMostOfFindings = 400'000;

/// Bytes of a text in a table; its finding has it whole.
constexpr std::size_t kMostOfCell = 200;

/// Lines that one chart holds.
constexpr std::size_t kMostCurves = 8;

/// Points of a curve. Of longer runs every second step is left out, or every third.
constexpr std::size_t kMostPoints = 400;

/// A class of the style.
const char* look_of(Status status) {
  switch (status) {
    case Status::kAgree:
      return "good";
    case Status::kUnsupported:
    case Status::kBaseline:
      return "open";
    case Status::kInconclusive:
    case Status::kDivergence:
    case Status::kInvalid:
    case Status::kInterrupted:
      return "bad";
  }
  return "bad";
}

constexpr const char* kExpected = "fails as expected";

/// "1 fails as expected", "2 fail as expected".
std::string counted_expected(std::size_t count) {
  return count == 1 ? std::string("1 ") + kExpected : std::to_string(count) + " fail as expected";
}

std::string badge(const std::string& look, const std::string& words) {
  return "<span class=\"badge " + look + "\">" + html_of(words) + "</span>";
}

/// A sign that separates words where no style does.
std::string unstyled(const std::string& sign) { return "<span class=\"unstyled\">" + sign + "</span>"; }

/// A tolerated failure is never shown as plain agreement.
std::string badge_of(Status status, bool fails_as_expected) {
  return (fails_as_expected && status == Status::kAgree ? badge("kept", kExpected)
                                                        : badge(look_of(status), std::string(name_of(status)))) +
         unstyled(":");
}

std::string cell_text(const std::string& text) { return html_of(without_middle(text, kMostOfCell)); }

/// "1 check", "2 checks".
std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string cell(const std::string& html, const char* look = "") {
  return std::string("<td") + (*look == 0 ? "" : std::string(" class=\"") + look + "\"") + ">" + html + "</td>";
}

/// Numbers of one scenario's findings.
struct Tally {
  std::size_t all = 0, good = 0, expected = 0;
};

/// Of one scenario, or of all: "".
Tally tally_of(const std::vector<ScenarioFindings>& all, const std::string& scenario) {
  Tally tally;
  for (const ScenarioFindings& of : all) {
    if (!scenario.empty() && of.scenario != scenario) continue;
    for (const Finding& finding : of.findings) {
      ++tally.all;
      tally.expected += finding.fails_as_expected() ? 1 : 0;
      tally.good += finding.status == Status::kAgree && !finding.fails_as_expected() ? 1 : 0;
    }
  }
  return tally;
}

/// Verdict of a scenario: its own, and beside it how many of its failures are tolerated.
std::string badges_of(Status status, const Tally& tally) {
  return badge(look_of(status), std::string(name_of(status))) +
         (tally.expected > 0 ? unstyled(",") + " " + badge("kept", counted_expected(tally.expected)) : "");
}

/// Reports of which one says all that the others say.
struct Group {
  const CheckReport* report = nullptr;
  std::vector<const CheckReport*> also = {};
};

bool is_kept(const CheckReport& check) { return check.status == Status::kAgree && !check.expected_failure.empty(); }

bool is_told(const CheckReport& check) { return check.status != Status::kAgree || !check.expected_failure.empty(); }

std::string value_of(const Line& line) {
  switch (line.kind) {
    case Line::Kind::kCommand:
      return "<dd><code class=\"command\">" + whole_html_of(line.value) + "</code></dd>";
    case Line::Kind::kLog:
      return "<dd><pre>" + html_of_lines(line.value) + "</pre></dd>";
    case Line::Kind::kText:
    case Line::Kind::kRemedy:
      break;
  }
  if (line.cause.empty()) return "<dd>" + html_of(line.value) + "</dd>";
  const diagnosis::Cause& cause = *diagnosis::find_cause(line.cause);
  return "<dd class=\"cause\">" + html_of(line.value) + "</dd><dt>remedy</dt><dd class=\"remedy\">" +
         html_of(std::string(cause.remedy)) + " <span class=\"quiet\">(lockstep explain " + html_of(line.cause) +
         ")</span></dd>";
}

/// Neighbours with one label share it.
std::string list_of(std::span<const Line> lines) {
  std::string out = "<dl>", label;
  for (const Line& line : lines) {
    if (line.kind == Line::Kind::kRemedy) continue;  // stands beside its cause
    if (line.label != label) out += "<dt>" + html_of(line.label) + "</dt>";
    out += value_of(line);
    label = line.cause.empty() ? line.label : "remedy";
  }
  return out + "</dl>";
}

/// All lines; causes but the likeliest fold.
std::string list_with_folds_of(const std::vector<Line>& lines) {
  const auto is_other = [](const Line& line) { return line.is_other; };
  const auto begin = std::find_if(lines.begin(), lines.end(), is_other);
  const auto end = std::find_if_not(begin, lines.end(), is_other);
  if (begin == lines.end()) return list_of(lines);
  const auto others =
      static_cast<std::size_t>(std::count_if(begin, end, [](const Line& line) { return !line.cause.empty(); }));
  return list_of({lines.begin(), begin}) + "<details><summary>" + counted(others, "other cause") +
         (others == 1 ? " fits" : " fit") + ", less likely</summary>" + list_of({begin, end}) + "</details>" +
         list_of({end, lines.end()});
}

/// Writes one verdict.
class Page {
 public:
  Page(const judge::Verdict& verdict, const plan::Plan& plan)
      : verdict_(verdict), plan_(plan), findings_(findings_of(verdict, plan)) {}

  std::string html() {
    std::string body = header() + "<main>\n" + overview();
    for (const std::string& section : sections()) body += section;
    return html_page("lockstep: " + std::string(name_of(verdict_.status())), body + rest() + "</main>\n");
  }

 private:
  /// In the order of the plan. The page has room for scenarios that do not hold first.
  std::vector<std::string> sections() {
    std::vector<std::string> all(plan_.scenarios.size());
    for (const bool holds : {false, true}) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((verdict_.status_of(plan_.scenarios[i].name) == Status::kAgree) == holds)
          all[i] = section(plan_.scenarios[i], i);
      }
    }
    return all;
  }

  std::string header() const {
    const Tally all = tally_of(findings_, "");
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", verdict_.wall_s);
    return "<header><h1>lockstep" + unstyled(":") + " " + badges_of(verdict_.status(), all) + "</h1>\n<p>" +
           counted(plan_.scenarios.size(), "scenario") + ", " + counted(verdict_.checks.size(), "check") + "; " +
           std::to_string(verdict_.runs_finished) + " of " + counted(verdict_.runs_total, "run") + " finished in " +
           seconds + " s; build <code>" + build_id() + "</code></p></header>\n";
  }

  /// Words for the filter, separated by commas.
  std::string verdicts_of(const scenario::Scenario& scenario) const {
    return std::string(name_of(verdict_.status_of(scenario.name))) +
           (tally_of(findings_, scenario.name).expected > 0 ? std::string(",") + kExpected : "");
  }

  bool is_judged(const std::string& scenario) const {
    return std::any_of(verdict_.checks.begin(), verdict_.checks.end(),
                       [&](const CheckReport& check) { return check.scenario == scenario; }) ||
           std::any_of(verdict_.runs.begin(), verdict_.runs.end(),
                       [&](const RunReport& run) { return run.run.starts_with(scenario + "/"); });
  }

  /// The first thing that does not hold, in one line.
  std::string first_word_on(const std::string& scenario) const {
    const Finding* kept = nullptr;
    for (const ScenarioFindings& of : findings_) {
      if (of.scenario != scenario) continue;
      for (const Finding& finding : of.findings) {
        if (finding.status != Status::kAgree) return finding.name + ": " + finding.summary;
        if (finding.fails_as_expected() && kept == nullptr) kept = &finding;
      }
    }
    return kept == nullptr ? "" : kept->name + " " + kExpected + ": " + kept->expected_failure;
  }

  std::string overview() const {
    if (plan_.scenarios.empty()) return "<p class=\"card\">Nothing was judged.</p>\n";
    std::string out =
        "<section class=\"card\" id=\"scenarios\"><h2>Scenarios</h2><div class=\"wide\"><table>\n<tr><th>scenario</th>"
        "<th>verdict</th><th class=\"number\">holds</th><th class=\"number\">records compared</th><th>first "
        "finding</th></tr>\n";
    for (std::size_t i = 0; i < plan_.scenarios.size(); ++i) {
      const scenario::Scenario& scenario = plan_.scenarios[i];
      const Tally tally = tally_of(findings_, scenario.name);
      std::size_t compared = 0;
      for (const CheckReport& check : verdict_.checks)
        compared += check.scenario == scenario.name ? check.result.compared : 0;
      out += "<tr" + html_attribute("data-verdict", verdicts_of(scenario)) + ">" +
             cell("<a href=\"#s" + std::to_string(i) + "\">" + html_of(scenario.name) + "</a>", "words") +
             cell(badges_of(verdict_.status_of(scenario.name), tally)) +
             cell(std::to_string(tally.good) + " of " + std::to_string(tally.all), "number") +
             cell(std::to_string(compared), "number") + cell(cell_text(first_word_on(scenario.name)), "words") +
             "</tr>\n";
    }
    return out + "</table></div></section>\n";
  }

  std::string section(const scenario::Scenario& scenario, std::size_t index) {
    const std::string id = "s" + std::to_string(index);
    std::string out = "<section class=\"card\"" + html_attribute("id", id) +
                      html_attribute("data-verdict", verdicts_of(scenario)) + "><h2>" + html_of(scenario.name) +
                      unstyled(":") + " " +
                      badges_of(verdict_.status_of(scenario.name), tally_of(findings_, scenario.name)) + "</h2>\n";
    if (!scenario.description.empty()) out += "<p>" + html_of(scenario.description) + "</p>\n";
    out += "<p class=\"quiet\"><code>" + html_of(scenario.file.string()) + "</code></p>\n";
    out += runs_of(scenario.name) + checks_of(scenario.name, id);
    if (!is_judged(scenario.name)) out += "<p>Nothing was judged.</p>\n";
    return out + table_of_checks(scenario.name) + curves_of(scenario.name) + quiet_maps_of(scenario.name, id) +
           "</section>\n";
  }

  /// A block of a finding, unless the page is full. One that folds shows its heading alone.
  std::string block(const std::string& look, const std::string& heading, const std::string& text, bool folds,
                    const std::string& pictures = "") {
    if (spent_on_findings_ + text.size() > kMostOfFindings) {
      ++left_out_;
      return "";
    }
    spent_on_findings_ += text.size();
    const std::string all = folds ? "<details><summary>" + heading + "</summary>" + text + pictures + "</details>"
                                  : "<h3>" + heading + "</h3>" + text + pictures;
    return "<article class=\"finding " + look + "\">" + all + "</article>\n";
  }

  /// A picture, unless pictures take too much already.
  std::string picture(const std::string& html) {
    if (spent_on_pictures_ + html.size() > kMostOfPictures)
      return "<p class=\"quiet\">A picture is left out: the page is full. Run this scenario alone for it.</p>\n";
    spent_on_pictures_ += html.size();
    return html;
  }

  /// Runs that did not end well; many that ended alike are told once.
  std::string runs_of(const std::string& scenario) {
    std::string out;
    for (std::size_t i = 0; i < verdict_.runs.size();) {
      const RunReport& run = verdict_.runs[i];
      std::vector<std::string> others;
      for (++i; i < verdict_.runs.size() && same_end(run, verdict_.runs[i]) &&
                run.run.substr(0, run.run.find('/')) == verdict_.runs[i].run.substr(0, verdict_.runs[i].run.find('/'));
           ++i)
        others.push_back(verdict_.runs[i].run);
      if (!run.run.starts_with(scenario + "/")) continue;
      std::vector<Line> lines = lines_of(run);
      if (!others.empty()) lines.push_back({.label = "also", .value = join(others, ", ")});
      const bool is_tolerated = run.status == Status::kAgree && !run.expected_failure.empty();
      if (is_tolerated) lines.insert(lines.begin(), {.label = "expected", .value = run.expected_failure});
      out += block(is_tolerated ? "kept" : look_of(run.status),
                   badge_of(run.status, is_tolerated) + " run " + html_of(run.run + ": " + run.outcome),
                   list_with_folds_of(lines), is_tolerated);
    }
    return out;
  }

  std::vector<Group> groups_of(const std::string& scenario) const {
    std::vector<Group> groups;
    for (const CheckReport& check : verdict_.checks) {
      if (check.scenario != scenario || !is_told(check)) continue;
      const auto same = std::find_if(groups.begin(), groups.end(),
                                     [&](const Group& group) { return same_finding(*group.report, check); });
      if (same == groups.end()) {
        groups.push_back({&check});
      } else {
        same->also.push_back(&check);
      }
    }
    return groups;
  }

  /// All that is said of a group: what was tried for any of its checks counts for all.
  static std::vector<Line> lines_of_group(const Group& group) {
    const CheckReport& check = *group.report;
    std::vector<Line> lines = lines_of(check);
    if (!check.expected_failure.empty())
      lines.insert(lines.begin(),
                   {.label = is_kept(check) ? "tolerated" : "expected", .value = check.expected_failure});
    for (const CheckReport* other : group.also) {
      for (const judge::Experiment& experiment : other->experiments) {
        const std::string tried = experiment.control + ": " + experiment.shows;
        if (std::any_of(lines.begin(), lines.end(), [&](const Line& line) { return line.value == tried; })) continue;
        const auto command = std::find_if(lines.begin(), lines.end(),
                                          [](const Line& line) { return line.kind == Line::Kind::kCommand; });
        lines.insert(command, {.label = "tried", .value = tried});
      }
      lines.push_back({.label = "also", .value = name_of_check(*other)});
    }
    if (!check.not_compared.empty())
      lines.push_back({.label = "not compared", .value = join(check.not_compared, ", ")});
    return lines;
  }

  std::string checks_of(const std::string& scenario, const std::string& id) {
    std::string out;
    for (const Group& group : groups_of(scenario)) {
      const CheckReport& check = *group.report;
      const judge::Map* map = find_map(scenario, check.index);
      out += block(is_kept(check) ? "kept" : look_of(check.status),
                   badge_of(check.status, is_kept(check)) + " " + html_of(name_of_check(check)) +
                       (is_kept(check) ? ": " + html_of(check.expected_failure) : ""),
                   list_with_folds_of(lines_of_group(group)), is_kept(check),
                   map == nullptr ? "" : picture(growth_of(*map) + html_of(*map, map_id(id, check))));
    }
    return out;
  }

  std::string table_of_checks(const std::string& scenario) const {
    std::string rows;
    std::size_t count = 0;
    for (const CheckReport& check : verdict_.checks) {
      if (check.scenario != scenario) continue;
      ++count;
      const std::string compared = std::to_string(check.result.compared);
      const std::string note = !check.expected_failure.empty() ? check.expected_failure : check.result.why;
      rows += "<tr>" + cell(cell_text(name_of_check(check)), "words") +
              cell(badge_of(check.status, !check.expected_failure.empty())) + cell(compared, "number") +
              cell(cell_text(join(check.not_compared, ", ")), "words") + cell(cell_text(note), "words") + "</tr>\n";
    }
    if (count == 0) return "";
    return "<details><summary>" + counted(count, "check") +
           "</summary><div class=\"wide\"><table><tr><th>check</th><th>verdict</th><th class=\"number\">records "
           "compared</th><th>not compared</th><th>note</th></tr>\n" +
           rows + "</table></div></details>\n";
  }

  static std::string map_id(const std::string& scenario_id, const CheckReport& check) {
    return scenario_id + "-c" + std::to_string(check.index);
  }

  const judge::Pictures* pictures_of(const std::string& scenario) const {
    for (const judge::Pictures& pictures : verdict_.pictures) {
      if (pictures.scenario == scenario) return &pictures;
    }
    return nullptr;
  }

  const judge::Map* find_map(const std::string& scenario, std::size_t check) const {
    const judge::Pictures* pictures = pictures_of(scenario);
    if (pictures == nullptr) return nullptr;
    const auto found = pictures->maps.find(check);
    return found == pictures->maps.end() ? nullptr : &found->second;
  }

  std::string curves_of(const std::string& scenario) {
    const judge::Pictures* pictures = pictures_of(scenario);
    if (pictures == nullptr || pictures->curves.empty()) return "";
    Chart loss{.title = "Loss", .series = {}}, gradient{.title = "Norm of the gradients", .series = {}};
    for (const judge::Curve& curve : pictures->curves) {
      if (loss.series.size() == kMostCurves) break;
      const std::string name = some_of(curve.runs, 4);
      ChartSeries of_loss{name, {}}, of_gradient{name, {}};
      const std::size_t stride = (curve.points.size() + kMostPoints - 1) / kMostPoints;
      for (std::size_t i = 0; i < curve.points.size(); i += stride) {
        const golden::CurvePoint& point = curve.points[i];
        const auto step = static_cast<double>(point.step);
        if (point.loss) of_loss.points.push_back({step, *point.loss});
        if (point.gradient) of_gradient.points.push_back({step, *point.gradient});
      }
      loss.series.push_back(std::move(of_loss));
      gradient.series.push_back(std::move(of_gradient));
    }
    const std::string charts = html_of(loss) + html_of(gradient);
    if (charts.empty()) return "";
    const std::size_t more = pictures->curves.size() - loss.series.size();
    return picture("<details" + std::string(verdict_.status_of(scenario) == Status::kAgree ? "" : " open") +
                   "><summary>Curves</summary><div class=\"charts\">" + charts + "</div>" +
                   (more > 0 ? "<p class=\"quiet\">" + counted(more, "more curve") + " not drawn.</p>" : "") +
                   "</details>\n");
  }

  /// Maps of checks that hold.
  std::string quiet_maps_of(const std::string& scenario, const std::string& id) {
    std::string out;
    for (const CheckReport& check : verdict_.checks) {
      if (check.scenario != scenario || is_told(check)) continue;
      const judge::Map* map = find_map(scenario, check.index);
      if (map == nullptr) continue;
      out += picture("<details><summary>Map of " + html_of(name_of_check(check)) + "</summary>" + growth_of(*map) +
                     html_of(*map, map_id(id, check)) + "</details>\n");
    }
    return out;
  }

  /// Warnings, and what the page had no room for.
  std::string rest() const {
    std::string out;
    for (const std::string& warning : verdict_.warnings) out += "<li>" + html_of(warning) + "</li>\n";
    if (!out.empty()) out = "<section class=\"card\"><h2>Warnings</h2><ul>\n" + out + "</ul></section>\n";
    if (left_out_ > 0)
      out += "<p class=\"card\">" + counted(left_out_, "more finding") + " left out: the page is full.</p>\n";
    return out;
  }

  const judge::Verdict& verdict_;
  const plan::Plan& plan_;
  const std::vector<ScenarioFindings> findings_;
  std::size_t spent_on_pictures_ = 0, spent_on_findings_ = 0, left_out_ = 0;
};

class HtmlRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    return without(Page(verdict, plan).html(), html_of(verdict.temporary_folder.string()));
  }

 private:
  /// A page is kept, and the folder is not. Paths in it begin at the scenario's name instead.
  static std::string without(std::string page, const std::string& folder) {
    if (folder.empty()) return page;
    for (std::size_t at = page.find(folder); at != std::string::npos; at = page.find(folder, at))
      page.erase(at, folder.size() + (page.compare(at + folder.size(), 1, "/") == 0 ? 1 : 0));
    return page;
  }
};

}  // namespace

std::unique_ptr<Renderer> make_html_renderer() { return std::make_unique<HtmlRenderer>(); }

}  // namespace lockstep::report
