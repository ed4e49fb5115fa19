// A rank that leaves, stops, ends early, or calls on others who do not come.
#include <csignal>

#include <ATen/ATen.h>
#include <unistd.h>

#include "harness/train/fault.h"

namespace lockstep::train {
namespace {

/// Acts when the rank enters one phase of one step.
class OnArrival : public Fault {
 public:
  explicit OnArrival(const Json& options) : phase_(options.at("phase").get<std::string>()) {}

  void arrive(launch::Phase phase, Collective& collective) override {
    if (phase_ == launch::name_of(phase)) act(collective);
  }

 private:
  virtual void act(Collective& collective) = 0;

  std::string phase_;
};

class Kill : public OnArrival {
  using OnArrival::OnArrival;
  void act(Collective&) override { ::kill(::getpid(), SIGKILL); }
};

class Hang : public OnArrival {
  using OnArrival::OnArrival;
  void act(Collective&) override {
    while (true) ::pause();
  }
};

class Exit : public OnArrival {
 public:
  explicit Exit(const Json& options) : OnArrival(options), code_(options.at("code").get<int>()) {}

 private:
  void act(Collective&) override { ::_exit(code_); }

  int code_;
};

class EndsEarly : public Fault {
  bool ends() const override { return true; }
};

/// Counts something over all ranks, so it thinks.
class ExtraCollective : public OnArrival {
  using OnArrival::OnArrival;
  void act(Collective& collective) override { collective.sum(at::ones({})); }
};

}  // namespace

std::unique_ptr<Fault> make_extra_collective_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<ExtraCollective>(options);
}
std::unique_ptr<Fault> make_ends_early_fault(const Json&, const scenario::GradientSpec&) {
  return std::make_unique<EndsEarly>();
}
std::unique_ptr<Fault> make_kill_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<Kill>(options);
}
std::unique_ptr<Fault> make_hang_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<Hang>(options);
}
std::unique_ptr<Fault> make_exit_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<Exit>(options);
}

}  // namespace lockstep::train
