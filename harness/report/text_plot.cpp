#include "harness/report/text_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/text.h"

namespace lockstep::report {
namespace {

constexpr std::size_t kPlotRows = 9;  // odd: one is in the middle
constexpr std::size_t kLeastColumns = 32;
constexpr char kSeveral = '#';  // curves at one place

/// Strokes of the axes.
struct Strokes {
  const char *tick, *side, *corner, *line, *dot;
};
constexpr Strokes kAsciiStrokes = {"+", "|", "+", "-", "*"};
constexpr Strokes kDrawnStrokes = {"\u2524", "\u2502", "\u2514", "\u2500", "\u2022"};

/// Least and largest of what all curves hold.
struct Extent {
  std::int64_t first_step = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_step = std::numeric_limits<std::int64_t>::min();
  double least = std::numeric_limits<double>::infinity();  // of the finite numbers
  double largest = -std::numeric_limits<double>::infinity();

  bool has_numbers() const { return least <= largest; }
};

Extent extent_of(const std::vector<PlotCurve>& curves) {
  Extent extent;
  for (const PlotCurve& curve : curves) {
    for (const PlotPoint& point : curve.points) {
      extent.first_step = std::min(extent.first_step, point.step);
      extent.last_step = std::max(extent.last_step, point.step);
      if (!std::isfinite(point.value)) continue;
      extent.least = std::min(extent.least, point.value);
      extent.largest = std::max(extent.largest, point.value);
    }
  }
  return extent;
}

/// Part of the way from `least` to `largest`; 0 where there is no way. Differences of doubles may overflow.
long double part_of_way(long double value, long double least, long double largest) {
  return largest > least ? (value - least) / (largest - least) : 0;
}

std::size_t nearest_of(long double part, std::size_t count) {
  return static_cast<std::size_t>(std::lround(part * static_cast<long double>(count - 1)));
}

/// Numbers with as few digits, three at least, as tell them apart.
std::vector<std::string> told_apart(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (int digits = 3; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    texts.clear();
    for (const double number : numbers) texts.push_back(rounded(number, digits));
    if (std::adjacent_find(texts.begin(), texts.end()) == texts.end()) break;
  }
  return texts;
}

/// One row of a plot: a mark in each column, or a space.
struct PlotRow {
  std::string label;
  std::string marks;

  void put(std::size_t column, char mark) {
    char& there = marks[column];
    there = there == ' ' || there == mark ? mark : kSeveral;
  }
  bool has(char mark) const { return marks.find(mark) != std::string::npos; }
  bool empty() const { return marks.find_first_not_of(' ') == std::string::npos; }
};

/// The rows of a plot: infinities, finite numbers from the largest to the least, NaN.
class Grid {
 public:
  Grid(const std::vector<PlotCurve>& curves, std::size_t columns) : extent_(extent_of(curves)) {
    add_labels();
    std::size_t labels = 0;
    for (const PlotRow& row : rows_) labels = std::max(labels, row.label.size());
    const std::size_t width = std::max(columns, kLeastColumns) - labels - 2;
    for (PlotRow& row : rows_) {
      row.label.insert(0, labels - row.label.size(), ' ');
      row.marks.assign(width, ' ');
    }
    for (const PlotCurve& curve : curves) {
      for (const PlotPoint& point : curve.points) row_of(point.value).put(column_of(point.step), curve.mark);
    }
  }

  const Extent& extent() const { return extent_; }
  bool has_several() const {
    return std::any_of(rows_.begin(), rows_.end(), [](const PlotRow& row) { return row.has(kSeveral); });
  }
  std::size_t width() const { return rows_[0].marks.size(); }
  std::size_t label_width() const { return rows_[0].label.size(); }

  /// Those of numbers, and others that are not empty.
  std::vector<PlotRow> shown() const {
    std::vector<PlotRow> rows;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].empty() || (i > 0 && i <= numbers_)) rows.push_back(rows_[i]);
    }
    return rows;
  }

 private:
  void add_labels() {
    rows_.push_back({.label = "inf", .marks = ""});
    if (extent_.has_numbers()) {
      numbers_ = extent_.largest > extent_.least ? kPlotRows : 1;
      const double middle = extent_.least / 2 + extent_.largest / 2;
      const std::vector<std::string> texts = numbers_ == 1 ? std::vector{rounded(extent_.least, kDigitsAlone)}
                                                           : told_apart({extent_.largest, middle, extent_.least});
      for (std::size_t i = 0; i < numbers_; ++i)
        rows_.push_back({.label = i % (kPlotRows / 2) == 0 ? texts[i / (kPlotRows / 2)] : "", .marks = ""});
    }
    rows_.push_back({.label = "-inf", .marks = ""});
    rows_.push_back({.label = "nan", .marks = ""});
  }

  PlotRow& row_of(double value) {
    if (std::isnan(value)) return rows_[numbers_ + 2];
    if (std::isinf(value)) return rows_[value > 0 ? 0 : numbers_ + 1];
    return rows_[numbers_ - nearest_of(part_of_way(value, extent_.least, extent_.largest), numbers_)];
  }

  std::size_t column_of(std::int64_t step) const {
    return nearest_of(part_of_way(static_cast<long double>(step), static_cast<long double>(extent_.first_step),
                                  static_cast<long double>(extent_.last_step)),
                      width());
  }

  static constexpr int kDigitsAlone = 6;

  Extent extent_;
  std::size_t numbers_ = 0;  ///< rows of finite numbers, behind the first row
  std::vector<PlotRow> rows_;
};

std::string drawn(const std::string& marks, const Strokes& strokes) {
  std::string text;
  for (const char mark : marks.substr(0, marks.find_last_not_of(' ') + 1))
    text += mark == '*' ? strokes.dot : std::string(1, mark);
  return text;
}

std::string at_step(const PlotPoint& point) {
  constexpr int kDigitsOfPoint = 6;
  const std::string value = std::isfinite(point.value) ? rounded(point.value, kDigitsOfPoint) : to_decimal(point.value);
  return value + " at step " + std::to_string(point.step);
}

/// "A  runs/a  2.33 at step 0, 2.28 at step 11; 2 of 12 not finite, the first at step 4".
std::string plot_legend(const PlotCurve& curve, const Strokes& strokes) {
  const std::vector<PlotPoint>& points = curve.points;
  std::string text = drawn(std::string(1, curve.mark), strokes) + "  " + curve.name + "  " + at_step(points.front());
  if (points.size() > 1) text += ", " + at_step(points.back());
  const auto is_lost = [](const PlotPoint& point) { return !std::isfinite(point.value); };
  const auto first = std::find_if(points.begin(), points.end(), is_lost);
  if (first != points.end())
    text += "; " + std::to_string(std::count_if(first, points.end(), is_lost)) + " of " +
            std::to_string(points.size()) + " not finite, the first at step " + std::to_string(first->step);
  return text;
}

}  // namespace

std::vector<std::string> text_plot(const std::string& title, const std::vector<PlotCurve>& curves,
                                   const PlotStyle& style) {
  const Strokes& strokes = style.ascii ? kAsciiStrokes : kDrawnStrokes;
  const Grid grid(curves, style.columns);
  std::vector<std::string> lines = {title};
  for (const PlotRow& row : grid.shown()) {
    const bool is_labelled = row.label.find_first_not_of(' ') != std::string::npos;
    lines.push_back(row.label + " " + (is_labelled ? strokes.tick : strokes.side) + drawn(row.marks, strokes));
  }
  const std::string margin(grid.label_width() + 1, ' ');
  std::string axis = margin + strokes.corner;
  for (std::size_t i = 0; i < grid.width(); ++i) axis += strokes.line;
  lines.push_back(axis);
  const std::string first = "step " + std::to_string(grid.extent().first_step);
  const std::string last = std::to_string(grid.extent().last_step);
  const bool has_one = grid.extent().first_step == grid.extent().last_step;
  const std::size_t between = grid.width() - std::min(grid.width() - 1, first.size() + last.size());
  lines.push_back(margin + " " + first + (has_one ? "" : std::string(between, ' ') + last));
  for (const PlotCurve& curve : curves) lines.push_back(plot_legend(curve, strokes));
  if (grid.has_several()) lines.push_back(std::string(1, kSeveral) + "  several of them");
  return lines;
}

}  // namespace lockstep::report
