#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Sketches by parameter.
using Sketches = std::map<std::string, const trace::Sketch*>;

/// What one rank holds after one step, by place: a trace finds its records one after the other. Empty where the trace
/// has no such step. *Lifetime*: of the run.
class Held {
 public:
  Held(const trace::RunTrace& run, std::size_t rank, std::int64_t step);

  /// Null where there is none.
  const trace::Record* find(trace::Channel channel, const std::string& name) const;

  /// In the order of the trace.
  std::vector<const trace::Record*> all(trace::Channel channel) const;

  bool empty() const { return step_ == nullptr; }

 private:
  const trace::Step* step_ = nullptr;
  std::map<std::pair<trace::Channel, std::string>, const trace::Record*> records_;
};

/// Whether both hold records of a channel, all with the same content.
bool same(const Held& a, const Held& b, trace::Channel channel);

/// "fc.weight" of "clipped fc.weight" and of "unscaled fc.weight".
std::string parameter_of(const std::string& gradient);

/// Whether a gradient is as the reduction left it, or before: nothing was unscaled or clipped.
bool is_plain(const trace::Record& gradient);

/// The gradients that a rank updates with: of each parameter the last one of the step, reduced, unscaled and clipped as
/// the training does it.
std::map<std::string, const trace::Record*> final_gradients(const Held& held);

/// L2 norm over all of them; NaN where one says nothing.
double total_norm(const std::map<std::string, const trace::Record*>& gradients);

/// Factor times a sketch, and so on, added up; nulls are zero.
trace::Sketch sum_of(const std::vector<std::pair<double, const trace::Sketch*>>& terms);

/// Ledger or loss number at a place; NaN where there is none.
double number_at(const Held& held, trace::Channel channel, const std::string& name);

}  // namespace lockstep::laws
