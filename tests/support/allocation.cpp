#include "tests/support/allocation.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {

std::atomic<std::size_t> largest = 0;
std::atomic<std::int64_t> alive = 0, most = 0;

void raise(auto& highest, auto value) {
  auto before = highest.load();
  while (value > before && !highest.compare_exchange_weak(before, value)) {
  }
}

}  // namespace

// Replaces the global operators of this test program, as [new.delete.single] allows.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  raise(largest, size);
  void* memory = std::malloc(size > 0 ? size : 1);
  lockstep::test::count_allocation(static_cast<std::int64_t>(malloc_usable_size(memory)));
  return memory;
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  lockstep::test::count_allocation(-static_cast<std::int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace lockstep::test {

void forget_allocations() {
  largest = 0;
  alive = most = 0;
}
std::size_t largest_allocation() { return largest; }
std::size_t most_allocated() { return static_cast<std::size_t>(most.load()); }
std::int64_t still_allocated() { return alive; }
void count_allocation(std::int64_t bytes) { raise(most, alive += bytes); }

}  // namespace lockstep::test
