#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/golden/curve.h"
#include "harness/trace/channel.h"

/// Numbers that a report draws. A verdict holds them only where a report asks for them, and nothing is judged by them.
namespace lockstep::judge {

/// Points of one run, or of several whose points are the same bits.
struct Curve {
  std::vector<std::string> runs;
  std::vector<golden::CurvePoint> points;
};

/// How the records of a cell relate, the worst last.
enum class Relates {
  kNotCompared,
  kEqual,       ///< the same bits
  kHidden,      ///< the same bits, but NaN or infinity: they prove nothing
  kRounding,    ///< within the bound of rounding (compare/rounding.h)
  kUnmeasured,  ///< other bits, and nothing was recorded that shows how far apart
  kBeyond,      ///< further apart than rounding explains
  kMissing,     ///< one side recorded it and the other did not
};

std::string_view name_of(Relates relates);

/// One record of both sides at the steps of a column: the worst of all ranks and steps.
struct Cell {
  Relates relates = Relates::kNotCompared;
  std::int64_t rank = 0;  ///< of the worst
  std::optional<double> distance, bound;
};

/// The records of one name in a channel.
struct Row {
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::vector<Cell> cells;  ///< one for each column of its map
};

/// Recorded steps that share a column: one, except in long runs.
struct Column {
  std::int64_t first = 0, last = 0;
};

/// A cell of a map, by indices.
struct CellPlace {
  std::size_t row = 0, column = 0;
};

/// All that a check compared of two sides, also behind their first difference.
struct Map {
  std::string left, right;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::map<std::int64_t, std::vector<Cell>> ranks;  ///< the worst of all rows, by rank and column
  std::optional<CellPlace> first;                   ///< the difference that the check found
};

/// Pictures of one scenario.
struct Pictures {
  std::string scenario;
  std::vector<Curve> curves;
  std::map<std::size_t, Map> maps;  ///< by index of the check
};

}  // namespace lockstep::judge
