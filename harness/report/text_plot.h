#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::report {

/// A number of one step.
struct PlotPoint {
  std::int64_t step = 0;
  double value = 0;  ///< may be NaN or infinite
};

/// One curve of a plot.
struct PlotCurve {
  char mark = '*';  ///< drawn at each point; '*' is a dot where the plot may have more than ASCII
  std::string name;
  std::vector<PlotPoint> points;  ///< at least one
};

/// How a plot is drawn.
struct PlotStyle {
  std::size_t columns = 72;  ///< of a line; no plot has fewer than 32
  bool ascii = false;
};

/// The lines of a plot of nine rows: title, rows with numbers at the axis, steps, and a line for each curve with its
/// first and last number. NaN and infinities have rows of their own, and are counted in that line.
std::vector<std::string> text_plot(const std::string& title, const std::vector<PlotCurve>& curves,
                                   const PlotStyle& style);

}  // namespace lockstep::report
