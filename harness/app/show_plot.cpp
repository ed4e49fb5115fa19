#include "harness/app/show_plot.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include <langinfo.h>
#include <locale.h>
#include <unistd.h>

#include "harness/app/display.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/golden/curve.h"
#include "harness/judge/verdict.h"
#include "harness/report/text_plot.h"
#include "harness/trace/reader.h"

namespace lockstep::app {
namespace {

using report::PlotCurve;
using report::PlotPoint;

/// One letter each.
constexpr std::size_t kMostPlotted = 26;

/// Whether the locale's characters are UTF-8. One that is not installed is taken as ASCII.
bool locale_is_utf8() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale == nullptr) return false;
  const bool is_utf8 = std::strcmp(::nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
  ::freelocale(locale);
  return is_utf8;
}

/// A run, or the only rank that a file holds.
trace::RunTrace read_traces(const std::filesystem::path& place) {
  if (is_folder(place)) return trace::read_run(place, place.string());
  trace::RunTrace run;
  run.run = place.string();
  run.ranks.push_back(trace::read_trace(place));
  return run;
}

/// The points of a curve that have a number.
std::vector<PlotPoint> plotted(const std::vector<golden::CurvePoint>& curve,
                               std::optional<double> golden::CurvePoint::*number) {
  std::vector<PlotPoint> points;
  for (const golden::CurvePoint& point : curve) {
    if (point.*number) points.push_back({point.step, *(point.*number)});
  }
  return points;
}

std::vector<PlotPoint> losses_of(const trace::RunTrace& run, const std::vector<golden::CurvePoint>& curve) {
  std::vector<PlotPoint> points = plotted(curve, &golden::CurvePoint::loss);
  if (points.empty())
    throw InputError({.what = "the run recorded no losses",
                      .where = run.run,
                      .expected = "numbers in the channel loss",
                      .actual = std::to_string(run.ranks.front().steps.size()) + " steps without one",
                      .next = "record the channel loss, too; lockstep show without --plot prints what is there"});
  return points;
}

void print_plot(const std::string& title, const std::vector<PlotCurve>& curves, const report::PlotStyle& style) {
  if (curves.empty()) return;
  for (const std::string& line : report::text_plot(title, curves, style)) print_line(stdout, line);
}

}  // namespace

int show_plots(const std::vector<std::filesystem::path>& traces, bool ascii) {
  if (traces.size() > kMostPlotted)
    throw InputError({.what = "there are more runs than letters",
                      .where = "lockstep show --plot",
                      .expected = "at most " + std::to_string(kMostPlotted) + " runs",
                      .actual = std::to_string(traces.size())});
  std::vector<PlotCurve> losses, norms;
  std::vector<std::string> torn;
  for (const std::filesystem::path& place : traces) {
    const trace::RunTrace run = read_traces(place);
    if (!run.torn().empty()) torn.push_back(run.torn());
    const char mark = traces.size() == 1 ? '*' : static_cast<char>('A' + losses.size());
    const std::vector<golden::CurvePoint> curve = golden::points_of(run);
    losses.push_back({.mark = mark, .name = place.string(), .points = losses_of(run, curve)});
    std::vector<PlotPoint> points = plotted(curve, &golden::CurvePoint::gradient);
    if (!points.empty()) norms.push_back({.mark = mark, .name = place.string(), .points = std::move(points)});
  }
  const report::PlotStyle style = {.columns = columns_of(STDOUT_FILENO).value_or(report::PlotStyle{}.columns),
                                   .ascii = ascii || !locale_is_utf8()};
  print_plot("loss, mean of the ranks", losses, style);
  print_plot("norm of all gradients, rank 0", norms, style);
  for (const std::string& one : torn) print_line(stdout, "torn: " + one);
  return exit_code(torn.empty() ? judge::Status::kAgree : judge::Status::kInconclusive);
}

}  // namespace lockstep::app
