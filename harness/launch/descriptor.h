#pragma once

#include <utility>

namespace lockstep::launch {

/// Owns one file descriptor. It is above 2 always, so that a child can put its standard streams in place safely.
class Descriptor {
 public:
  Descriptor() = default;

  /// Takes over `number`; a negative one is no descriptor.
  explicit Descriptor(int number);
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  void close();

 private:
  int number_ = -1;
};

}  // namespace lockstep::launch
