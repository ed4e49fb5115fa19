#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::test {

/// A combination of records in the place of the first: sketches are linear, so that its own is exact. Its digest is
/// that of no tensor.
inline trace::Record mixed(const std::vector<std::pair<double, const trace::Record*>>& terms) {
  trace::Record record = *terms[0].second;
  double number = 0;
  std::array<double, trace::Sketch::kBuckets> buckets{};
  for (const auto& [factor, term] : terms) {
    number += factor * term->number.value_or(0);
    for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += factor * term->sketch->buckets[i];
  }
  record.sketch->buckets = buckets;
  const double norm = trace::estimated_norm(*record.sketch);
  record.sketch->max_abs = *record.max_abs * norm / *record.norm;
  record.max_abs = record.sketch->max_abs;
  record.sketch->norm = norm;
  record.norm = norm;
  if (record.number) record.number = number;
  record.digest.high ^= static_cast<std::uint64_t>(std::llround(1e6 * norm)) | 1;
  return record;
}

/// Multiplies the records of a channel whose names begin with `prefix`, from a step on, on every rank.
inline void multiply(trace::RunTrace& run, std::int64_t first, trace::Channel channel, double factor,
                     const std::string& prefix = "") {
  for (trace::Trace& rank : run.ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) {
        if (step.step >= first && record.channel == channel && record.name.starts_with(prefix))
          record = mixed({{factor, &record}});
      }
    }
  }
}

}  // namespace lockstep::test
