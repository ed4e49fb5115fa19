#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Sketches by parameter.
using Sketches = std::map<std::string, const trace::Sketch*>;

/// Records of one rank after one step, indexed by channel and name; lookup in a trace itself is linear. Empty if the
/// trace lacks the step. *Lifetime*: of the run.
class Held {
 public:
  Held(const trace::RunTrace& run, std::size_t rank, std::int64_t step);

  /// Null if there is none.
  const trace::Record* find(trace::Channel channel, std::string_view name) const;

  /// All records of a channel, in the order of the trace.
  std::vector<const trace::Record*> all(trace::Channel channel) const;

  bool empty() const { return step_ == nullptr; }

 private:
  /// Where a record stands, or would.
  std::size_t slot_of(trace::Channel channel, std::string_view name) const;

  const trace::Step* step_ = nullptr;
  std::vector<const trace::Record*> slots_;  ///< by hash, half of them null: a power of two; empty without a step
};

/// Whether both have records of a channel, and all are equal.
bool same(const Held& a, const Held& b, trace::Channel channel);

/// Parameter name in a gradient's name: "fc.weight" for "clipped fc.weight" and "unscaled fc.weight".
std::string parameter_of(const std::string& gradient);

/// Whether it is a rank's own loss of a micro-batch: "local", "local.1".
bool is_own_loss(const trace::Record& record);

/// Whether a gradient is what DDP handed out, and the script changed it before the update.
bool is_handed_out(const trace::Record& gradient);

/// Whether a gradient was neither unscaled nor clipped.
bool is_plain(const trace::Record& gradient);

/// Gradients that a rank's optimizer gets, by parameter: the last record of the step, after reduction, unscaling and
/// clipping.
std::map<std::string, const trace::Record*> final_gradients(const Held& held);

/// Whether both update with the same gradients, whatever was recorded on the way to them; or with none.
bool same_final_gradients(const Held& a, const Held& b);

/// L2 norm over all gradients; NaN if one has no norm.
double total_norm(const std::map<std::string, const trace::Record*>& gradients);

/// Σ factor · sketch. A null sketch counts as zero.
trace::Sketch sum_of(const std::vector<std::pair<double, const trace::Sketch*>>& terms);

/// Number of a ledger entry or loss; NaN if there is none.
double number_at(const Held& held, trace::Channel channel, const std::string& name);

}  // namespace lockstep::laws
