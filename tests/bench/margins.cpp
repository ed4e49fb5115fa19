// Distance and bound of every record in which two runs differ, a JSON line each: rounding_margins LEFT RIGHT.
#include <algorithm>
#include <iostream>

#include "harness/base/json.h"
#include "harness/compare/rounding.h"
#include "harness/compare/scope.h"
#include "harness/trace/reader.h"

using namespace lockstep;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: rounding_margins LEFT RIGHT (folders of two runs)\n";
    return 2;
  }
  try {
    const trace::RunTrace left = trace::read_run(argv[1], "left"), right = trace::read_run(argv[2], "right");
    const compare::RoundingBound bound(left, right);
    const auto horizon = bound.horizon();
    std::cout << Json({{"horizon", horizon ? Json(*horizon) : Json()}}) << "\n";
    const compare::Relation measure = [&](const trace::Record& a, const trace::Record& b, std::int64_t step,
                                          std::int64_t rank) -> std::optional<std::string> {
      const auto rounding = trace::same_bits(&a, &b) ? std::nullopt : bound.judge(a, b, step, rank);
      if (!rounding) return std::nullopt;
      const auto size = [](const trace::Record& record) { return record.number.value_or(record.norm.value_or(0)); };
      std::cout << Json({{"step", step},
                         {"channel", name_of(a.channel)},
                         {"tensor", a.name},
                         {"distance", rounding->distance},
                         {"bound", rounding->bound},
                         {"norm", std::max(std::abs(size(a)), std::abs(size(b)))}})
                << "\n";
      return std::nullopt;
    };
    const bool alike = compare::same_shape(left, right);
    const auto channels = trace::channels_that([&](const trace::ChannelInfo& row) {
      return row.can_round() && (alike || row.across == trace::Across::kAllShapes);
    });
    compare::compare_runs(left, right, channels, measure, compare::held_by_both(left, right));
  } catch (const std::exception& error) {
    std::cerr << "rounding_margins: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
