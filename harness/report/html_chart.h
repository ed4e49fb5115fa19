#pragma once

#include <string>
#include <vector>

namespace lockstep::report {

/// A number of one step. NaN and infinity have no point, and the chart says so.
struct ChartPoint {
  double x = 0;
  double y = 0;
};

/// One line of a chart.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  bool is_limit = false;  ///< dashed and grey: a bound, not a measurement
};

/// A chart along the steps of a training.
struct Chart {
  std::string title;
  std::vector<ChartSeries> series;
  bool logarithmic = false;  ///< zeros are at the bottom, marked as such
};

/// The chart as inline SVG with its legend, and its numbers in a table that folds. Empty if no series has a point.
std::string html_of(const Chart& chart);

/// Three significant digits: "1.2e-05".
std::string short_number(double value);

}  // namespace lockstep::report
