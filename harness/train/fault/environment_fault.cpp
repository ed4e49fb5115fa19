// Settings that one rank makes for itself.
#include "harness/train/fault/lasting.h"

namespace lockstep::train {
namespace {

class DeterminismOnRank : public Fault {
 public:
  explicit DeterminismOnRank(const Json& options) : options_(options) {}
  void determinism(recipe::DeterminismSpec& spec) override {
    spec.threads = options_.value("threads", spec.threads);
    spec.cpu = options_.value("cpu", spec.cpu);
    spec.flush_denormal = options_.value("flush_denormal", spec.flush_denormal);
    if (options_.contains("algorithms")) spec.algorithms = recipe::kind_at<recipe::Algorithms>(options_, "algorithms");
  }

 private:
  Json options_;
};

}  // namespace

LOCKSTEP_FAULT(determinism_on_rank, DeterminismOnRank, options)

}  // namespace lockstep::train
