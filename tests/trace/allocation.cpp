#include "tests/trace/allocation.h"

#include <cstdlib>
#include <new>

namespace {
std::size_t largest = 0;
}

// Replaces the global operators of this test program, as [new.delete.single] allows.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (size > largest) largest = size;
  return std::malloc(size > 0 ? size : 1);
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::trace::test {

void forget_allocations() { largest = 0; }
std::size_t largest_allocation() { return largest; }

}  // namespace lockstep::trace::test
