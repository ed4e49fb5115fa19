#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/audit/audit_text.h"
#include "harness/base/text.h"

namespace lockstep::audit {
namespace {

/// One line of the chart.
struct Series {
  const char* name;
  const char* color;
  const std::vector<double>& values;  ///< by number of ranks
};

/// The plotted area, in pixels.
constexpr double kLeft = 60, kTop = 40, kWidth = 420, kHeight = 260;

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "middle") {
  return "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" text-anchor=\"" + anchor + "\">" + text + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, const char* color) {
  return "<line x1=\"" + pixels(x1) + "\" y1=\"" + pixels(y1) + "\" x2=\"" + pixels(x2) + "\" y2=\"" + pixels(y2) +
         "\" stroke=\"" + color + "\"/>\n";
}

/// Both axes in powers of two.
class Axes {
 public:
  Axes(const std::vector<std::int64_t>& ranks, const std::vector<Series>& all) {
    left_ = std::log2(static_cast<double>(ranks.front()));
    right_ = std::max(left_ + 1, std::log2(static_cast<double>(ranks.back())));
    for (const Series& series : all) {
      for (const double value : series.values) take(value / series.values.front());
    }
  }

  double x(double ranks) const { return kLeft + kWidth * (std::log2(ranks) - left_) / (right_ - left_); }
  double y(double ratio) const { return kTop + kHeight * (1 - (std::log2(ratio) - low_) / (high_ - low_)); }
  int low() const { return static_cast<int>(low_); }
  int high() const { return static_cast<int>(high_); }

 private:
  void take(double ratio) {
    if (!(ratio > 0) || !std::isfinite(ratio)) return;
    low_ = std::min(low_, std::floor(std::log2(ratio)));
    high_ = std::max(high_, std::ceil(std::log2(ratio)));
  }

  double left_ = 0, right_ = 1, low_ = 0, high_ = 1;
};

/// Of several that coincide, those below stay visible at the sides.
std::string curve(const Series& series, const std::vector<std::int64_t>& ranks, const Axes& axes, int width) {
  std::string points, dots;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double ratio = series.values[i] / series.values.front();
    if (!(ratio > 0) || !std::isfinite(ratio)) continue;
    const std::string x = pixels(axes.x(static_cast<double>(ranks[i]))), y = pixels(axes.y(ratio));
    points += x + "," + y + " ";
    dots += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"3\" fill=\"" + series.color + "\"/>\n";
  }
  return "<polyline fill=\"none\" stroke=\"" + std::string(series.color) + "\" stroke-width=\"" +
         std::to_string(width) + "\" points=\"" + points + "\"/>\n" + dots;
}

bool is_known(double value) { return value > 0 && std::isfinite(value); }

/// What a reader cannot see of a line: that it lies on another one, or is not there.
std::string remark_on(const Series& series, const std::vector<Series>& before) {
  const double first = series.values.front();
  if (!is_known(first) || std::count_if(series.values.begin(), series.values.end(), is_known) < 2)
    return " (not measured)";
  for (const Series& other : before) {
    bool same = true;
    for (std::size_t i = 0; i < series.values.size(); ++i) {
      const double ours = series.values[i] / first, theirs = other.values[i] / other.values.front();
      same = same && (ours == theirs || (!is_known(ours) && !is_known(theirs)));
    }
    if (same) return std::string(" (as ") + other.name + ")";
  }
  return "";
}

/// Why a number of ranks has no point: the recipe refuses it, or nothing was measured.
std::string remark_at(const Audit& audit, std::size_t i) {
  const auto knows = [i](const std::vector<double>& values) { return is_known(values[i]); };
  if (knows(audit.batch) || knows(audit.rate) || knows(audit.update)) return "";
  const std::string refused = "world-size@" + std::to_string(audit.ranks[i]);
  const bool is_refused =
      std::any_of(audit.lines.begin(), audit.lines.end(), [&](const Line& line) { return line.id == refused; });
  return is_refused ? " (refused)" : " (not measured)";
}

}  // namespace

std::string to_svg(const Audit& audit) {
  const std::vector<Series> all = {{"samples in an update", "#0072b2", audit.batch},
                                   {"learning rate", "#d55e00", audit.rate},
                                   {"norm of the first update", "#009e73", audit.update}};
  const Axes axes(audit.ranks, all);
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"360\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"860\" height=\"360\" fill=\"white\"/>\n";
  out +=
      text_at(kLeft + kWidth / 2, 20,
              "relative to " + std::to_string(audit.ranks.front()) + (audit.ranks.front() == 1 ? " rank" : " ranks"));
  for (int power = axes.low(); power <= axes.high(); ++power) {
    const double y = axes.y(std::exp2(power));
    out += line_between(kLeft, y, kLeft + kWidth, y, "#dddddd");
    out += text_at(kLeft - 8, y + 4, rounded(std::exp2(power), 4), "end");
  }
  for (std::size_t i = 0; i < audit.ranks.size(); ++i) {
    const double x = axes.x(static_cast<double>(audit.ranks[i]));
    out += line_between(x, kTop, x, kTop + kHeight, "#dddddd");
    out += text_at(x, kTop + kHeight + 18, std::to_string(audit.ranks[i]) + remark_at(audit, i));
  }
  out += text_at(kLeft + kWidth / 2, kTop + kHeight + 38, "ranks");
  double y = kTop + 10;
  std::vector<Series> drawn;
  for (const Series& series : all) {
    out += curve(series, audit.ranks, axes, 2 * static_cast<int>(all.size() - drawn.size()));
    out += line_between(kLeft + kWidth + 15, y, kLeft + kWidth + 35, y, series.color);
    out += text_at(kLeft + kWidth + 40, y + 4, series.name + remark_on(series, drawn), "start");
    drawn.push_back(series);
    y += 20;
  }
  return out + "</svg>\n";
}

}  // namespace lockstep::audit
