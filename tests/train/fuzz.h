#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace lockstep::train {

constexpr int kFiles = 1000;       ///< of each kind
constexpr std::size_t kMost = 16;  ///< bytes in memory for each byte of a file

/// Watches and counts what tensors are allocated with.
class WatchedAllocator : public c10::Allocator {
 public:
  WatchedAllocator();
  ~WatchedAllocator() override;
  c10::DataPtr allocate(std::size_t size) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  std::size_t limit = static_cast<std::size_t>(-1);

 private:
  c10::Allocator* usual_;
};

/// A gzip file of this text.
std::string gzipped(const std::string& text);

/// Damaged files end in an error that names them: no crash, no hang, no memory out of proportion to the file.
class Fuzz : public ::testing::Test {
 protected:
  /// Whether `read` refuses the file, with an error that names it. Whatever it does, it must not hold more memory
  /// than a few times the file, all in all and at once.
  bool refuses(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& read);

  /// Damages `content` kFiles times and reads each; returns how many were refused.
  int refused(const std::string& name, const std::string& content,
              const std::function<void(const std::filesystem::path&)>& read);

  test::Scratch scratch_;
  WatchedAllocator allocator_;
};

}  // namespace lockstep::train
