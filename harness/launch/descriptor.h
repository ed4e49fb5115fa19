#pragma once

#include <utility>

namespace lockstep::launch {

/// Owns one file descriptor. It is always above 2, so a child can set up its standard streams safely.
class Descriptor {
 public:
  Descriptor() = default;

  /// Takes ownership of `number`; a negative number means none.
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
