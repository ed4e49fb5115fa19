// A rank that leaves, stops, ends early, or calls on others who do not come.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include <ATen/ATen.h>
#include <unistd.h>

#include "harness/train/fault/lasting.h"

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

class BreaksDown : public OnArrival {
 public:
  using How = recipe::BreaksDownHow;

  explicit BreaksDown(const Json& options) : OnArrival(options), how_(recipe::kind_at<How>(options, "how")) {}

 private:
  void act(Collective&) override {
    constexpr std::int64_t kMoreThanThereIs = std::int64_t{1} << 50;
    if (how_ == How::kException) throw std::runtime_error("the planted fault breaks_down throws");
    if (how_ == How::kAbort) std::abort();
    if (how_ == How::kOutOfMemory) at::empty({kMoreThanThereIs});
    if (how_ == How::kStop) ::raise(SIGSTOP);
    while (how_ == How::kSpin) beats_ = beats_ + 1;
  }

  How how_;
  volatile std::uint64_t beats_ = 0;  ///< without it the loop would have no effect
};

class HangInCollective : public OnArrival {
  using OnArrival::OnArrival;
  void act(Collective& collective) override {
    collective.before_each([] {
      while (true) ::pause();
    });
  }
};

class OddCollective : public OnArrival {
 public:
  using How = recipe::OddCollectiveHow;

  explicit OddCollective(const Json& options)
      : OnArrival(options),
        mismatched_(recipe::kind_at<How>(options, "how") == How::kMismatched),
        odd_rank_(options.at("odd_rank").get<std::int64_t>()) {}

 private:
  void act(Collective& collective) override {
    const bool odd = collective.group()->getRank() == odd_rank_;
    if (!odd || mismatched_) collective.sum(at::ones({odd ? 7 : 1}));
  }

  bool mismatched_;
  std::int64_t odd_rank_;
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

LOCKSTEP_FAULT(extra_collective, ExtraCollective, options)
LOCKSTEP_FAULT(breaks_down, BreaksDown, options)
LOCKSTEP_FAULT(hang_in_collective, HangInCollective, options)
LOCKSTEP_FAULT(odd_collective, OddCollective, options)
LOCKSTEP_FAULT(ends_early, EndsEarly)
LOCKSTEP_FAULT(kill, Kill, options)
LOCKSTEP_FAULT(hang, Hang, options)
LOCKSTEP_FAULT(exit, Exit, options)

}  // namespace lockstep::train
