#include "harness/record/staging.h"

#include <algorithm>
#include <new>

#include <sys/mman.h>

namespace lockstep::record {
namespace {

constexpr std::size_t kLine = 64;  // of the cache

}  // namespace

StagingMemory::StagingMemory(std::size_t capacity) : capacity_(capacity) {
  void* const memory =
      ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::madvise(memory, capacity, MADV_DONTFORK);
  memory_ = static_cast<std::byte*>(memory);
}

StagingMemory::~StagingMemory() { ::munmap(memory_, capacity_); }

std::byte* StagingMemory::take(std::size_t size) {
  if (size > capacity_) return nullptr;
  size = (std::max<std::size_t>(size, 1) + kLine - 1) / kLine * kLine;  // never nothing: no two begin at one place
  if (taken_.empty()) return size <= capacity_ ? put(0, size) : nullptr;
  const std::size_t oldest = taken_.front();
  if (next_ <= oldest) return size <= oldest - next_ ? put(next_, size) : nullptr;
  if (size <= capacity_ - next_) return put(next_, size);
  return size <= oldest ? put(0, size) : nullptr;
}

std::byte* StagingMemory::put(std::size_t begin, std::size_t size) {
  taken_.push_back(begin);
  next_ = begin + size;
  return memory_ + begin;
}

}  // namespace lockstep::record
