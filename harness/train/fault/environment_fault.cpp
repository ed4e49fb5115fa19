// Settings that one rank makes for itself.
#include "harness/train/fault/fault.h"

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

std::unique_ptr<Fault> make_determinism_on_rank_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<DeterminismOnRank>(options);
}

}  // namespace lockstep::train
