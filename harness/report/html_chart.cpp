#include "harness/report/html_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "harness/report/html_text.h"

namespace lockstep::report {
namespace {

constexpr double kWidth = 460, kHeight = 220, kLeft = 58, kRight = 12, kTop = 12, kBottom = 30;

/// Rows of a table of numbers. More steps are thinned out.
constexpr std::size_t kMostTableRows = 60;

/// Colours that people with any colour vision tell apart. *Source*: Okabe and Ito 2008.
constexpr std::array<const char*, 8> kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#b8860b", "#56a0d3", "#6b4fa0", "#666666"};
constexpr const char* kLimitColor = "#777777";
constexpr std::array<const char*, 4> kDashes = {"", "7 3", "2 3", "9 3 2 3"};

std::string pixel(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// Maps steps and values to pixels.
class Plane {
 public:
  explicit Plane(const Chart& chart) : logarithmic_(chart.logarithmic) {
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) take(point);
    }
    if (has_points_ && high_ == low_) {
      low_ -= logarithmic_ ? 1 : std::max(std::fabs(low_) * 0.5, 1e-300);
      high_ += logarithmic_ ? 1 : std::max(std::fabs(high_) * 0.5, 1e-300);
    }
    const double rest = 0.06 * (high_ - low_);
    low_ -= has_zeros_ ? 3 * rest : rest;
    high_ += rest;
  }

  bool has_points() const { return has_points_ || has_zeros_; }
  bool has_zeros() const { return has_zeros_; }
  double first() const { return first_; }
  double last() const { return last_; }
  double low() const { return low_; }
  double high() const { return high_; }

  double x(double step) const {
    const double share = last_ > first_ ? (step - first_) / (last_ - first_) : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  /// Of the axis's own unit: a power of ten on a logarithmic one.
  double y_of(double at) const {
    const double share = high_ > low_ ? (at - low_) / (high_ - low_) : 0.5;
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
  /// Nothing for a value that has no place.
  std::optional<double> y(double value) const {
    if (!std::isfinite(value)) return std::nullopt;
    if (!logarithmic_) return y_of(value);
    return value > 0 ? y_of(std::log10(value)) : kHeight - kBottom;
  }

 private:
  void take(const ChartPoint& point) {
    first_ = any_ ? std::min(first_, point.x) : point.x;
    last_ = any_ ? std::max(last_, point.x) : point.x;
    any_ = true;
    if (!std::isfinite(point.y)) return;
    if (logarithmic_ && !(point.y > 0)) {
      has_zeros_ = true;
      return;
    }
    const double at = logarithmic_ ? std::log10(point.y) : point.y;
    low_ = has_points_ ? std::min(low_, at) : at;
    high_ = has_points_ ? std::max(high_, at) : at;
    has_points_ = true;
  }

  bool logarithmic_, any_ = false, has_points_ = false, has_zeros_ = false;
  double first_ = 0, last_ = 0, low_ = 0, high_ = 0;
};

/// 1, 2 or 5 times a power of ten: about `count` of these fit into `range`.
double tick_distance(double range, int count) {
  const double raw = range / count, power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10) * power;
}

std::string label_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text class=\"tick\" x=\"" + pixel(x) + "\" y=\"" + pixel(y) + "\" text-anchor=\"" + anchor + "\">" + text +
         "</text>";
}

std::string grid_line(double y) {
  return "<path class=\"grid\" fill=\"none\" stroke=\"#cccccc\" d=\"M" + pixel(kLeft) + " " + pixel(y) + "H" +
         pixel(kWidth - kRight) + "\"/>";
}

std::string axes_of(const Chart& chart, const Plane& plane) {
  std::string out;
  const double range = plane.high() - plane.low();
  const double tick = chart.logarithmic ? std::max(1.0, std::ceil(range / 5)) : tick_distance(range, 4);
  const double lowest = plane.has_zeros() ? plane.low() + 0.12 * range : plane.low();
  for (double at = std::ceil(lowest / tick) * tick; range > 0 && at <= plane.high(); at += tick) {
    const double value = std::fabs(at) < tick * 1e-6 ? 0 : at;
    out += grid_line(plane.y_of(at));
    out += label_at(kLeft - 6, plane.y_of(at) + 4, "end",
                    chart.logarithmic ? short_number(std::pow(10, at)) : short_number(value));
  }
  if (plane.has_zeros()) out += label_at(kLeft - 6, kHeight - kBottom + 2, "end", "equal");
  const double step = std::max(1.0, tick_distance(std::max(1.0, plane.last() - plane.first()), 6));
  for (double at = std::ceil(plane.first() / step) * step; at <= plane.last(); at += step)
    out += label_at(plane.x(at), kHeight - kBottom + 18, "middle", pixel(at).substr(0, pixel(at).find('.')));
  return out + "<path class=\"axis\" fill=\"none\" stroke=\"#888888\" d=\"M" + pixel(kLeft) + " " + pixel(kTop) + "V" +
         pixel(kHeight - kBottom) + "H" + pixel(kWidth - kRight) + "\"/>";
}

/// Attributes of a series' stroke; a class of the style may replace the colour.
std::string stroke_of(const ChartSeries& series, std::size_t index) {
  const char* const dash = series.is_limit ? "4 4" : kDashes[index / 2 % kDashes.size()];
  return "class=\"" + (series.is_limit ? std::string("limit") : "line l" + std::to_string(index % kColors.size())) +
         "\" fill=\"none\" stroke=\"" + (series.is_limit ? kLimitColor : kColors[index % kColors.size()]) +
         "\" stroke-width=\"2\"" + (*dash == 0 ? "" : std::string(" stroke-dasharray=\"") + dash + "\"");
}

std::string line_of(const ChartSeries& series, std::size_t index, const Plane& plane) {
  std::string path, dots;
  bool draws = false;
  for (const ChartPoint& point : series.points) {
    const auto y = plane.y(point.y);
    if (y) path += (draws ? "L" : "M") + pixel(plane.x(point.x)) + " " + pixel(*y);
    if (y && !series.is_limit && series.points.size() <= 30)
      dots += "M" + pixel(plane.x(point.x)) + " " + pixel(*y) + "h0";
    draws = y.has_value();
  }
  std::string out = "<path " + stroke_of(series, index) + " d=\"" + path + "\"/>";
  if (!dots.empty())
    out += "<path class=\"line l" + std::to_string(index % kColors.size()) + "\" fill=\"none\" stroke=\"" +
           kColors[index % kColors.size()] + "\" stroke-width=\"6\" stroke-linecap=\"round\" d=\"" + dots + "\"/>";
  return out;
}

/// What a reader cannot see of a line.
std::string remark_on(const ChartSeries& series) {
  const auto lost = std::count_if(series.points.begin(), series.points.end(),
                                  [](const ChartPoint& point) { return !std::isfinite(point.y); });
  if (series.points.empty()) return " (not recorded)";
  return lost == 0 ? "" : " (" + std::to_string(lost) + " points are NaN or infinite)";
}

std::string legend_of(const Chart& chart) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    out += "<li><svg width=\"26\" height=\"10\" aria-hidden=\"true\"><path " + stroke_of(chart.series[i], i) +
           " d=\"M1 5H25\"/></svg> " + html_of(chart.series[i].name + remark_on(chart.series[i])) + "</li>";
  }
  return out + "</ul>";
}

std::string table_of(const Chart& chart) {
  std::map<double, std::vector<std::string>> rows;
  std::string out = "<details><summary>numbers</summary><div class=\"wide\"><table><tr><th>step</th>";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    out += "<th>" + html_of(chart.series[i].name) + "</th>";
    for (const ChartPoint& point : chart.series[i].points) {
      auto& row = rows[point.x];
      row.resize(chart.series.size());
      row[i] = short_number(point.y);
    }
  }
  out += "</tr>";
  const std::size_t stride = rows.size() / kMostTableRows + 1;
  std::size_t at = 0;
  for (const auto& [step, values] : rows) {
    if (at++ % stride != 0) continue;
    out += "<tr><td>" + pixel(step).substr(0, pixel(step).find('.')) + "</td>";
    for (const std::string& value : values) out += "<td>" + value + "</td>";
    out += "</tr>";
  }
  out += "</table></div>";
  if (stride > 1)
    out += "<p class=\"quiet\">Every " + std::to_string(stride) + " steps of those that were recorded.</p>";
  return out + "</details>";
}

}  // namespace

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string html_of(const Chart& chart) {
  const Plane plane(chart);
  if (!plane.has_points()) return "";
  std::string out = "<figure><figcaption>" + html_of(chart.title) + "</figcaption><svg class=\"chart\" role=\"img\"" +
                    html_attribute("aria-label", chart.title) + " viewBox=\"0 0 " + pixel(kWidth) + " " +
                    pixel(kHeight) + "\" width=\"" + pixel(kWidth) + "\" height=\"" + pixel(kHeight) +
                    "\" font-family=\"sans-serif\" font-size=\"11\">" + axes_of(chart, plane);
  for (std::size_t i = 0; i < chart.series.size(); ++i) out += line_of(chart.series[i], i, plane);
  return out + "</svg>" + legend_of(chart) + table_of(chart) + "</figure>\n";
}

}  // namespace lockstep::report
