// A rank that leaves, stops, or calls on others who do not come.
#include <csignal>

#include <unistd.h>

#include "harness/train/fault.h"

namespace lockstep::train {
namespace {

/// Acts when the rank enters one phase of one step.
class OnArrival : public Fault {
 public:
  explicit OnArrival(const Json& options) : phase_(options.at("phase").get<std::string>()) {}

  void arrive(launch::Phase phase) override {
    if (phase_ == launch::name_of(phase)) act();
  }

 private:
  virtual void act() = 0;

  std::string phase_;
};

class Kill : public OnArrival {
  using OnArrival::OnArrival;
  void act() override { ::kill(::getpid(), SIGKILL); }
};

class Hang : public OnArrival {
  using OnArrival::OnArrival;
  void act() override {
    while (true) ::pause();
  }
};

class Exit : public OnArrival {
 public:
  explicit Exit(const Json& options) : OnArrival(options), code_(options.at("code").get<int>()) {}

 private:
  void act() override { ::_exit(code_); }

  int code_;
};

}  // namespace

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
