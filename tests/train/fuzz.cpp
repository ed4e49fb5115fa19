#include "tests/train/fuzz.h"

#include <algorithm>
#include <random>
#include <vector>

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>
#include <zlib.h>

#include "harness/base/error.h"

#include "tests/support/allocation.h"

namespace lockstep::train {
namespace {

/// One damage, as a disk, a network or an enemy would do it.
std::string damaged(std::string content, std::mt19937& random) {
  const auto below = [&](std::size_t end) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(end, 1));
  };
  switch (random() % 5) {
    case 0:  // truncated
      content = content.substr(0, below(content.size()));
      break;
    case 1:  // one bit
      content[below(content.size())] ^= static_cast<char>(1 << random() % 8);
      break;
    case 2:  // an absurd length, wherever one may stand
      for (std::size_t i = 0, at = below(content.size()); i < 8 && at + i < content.size(); ++i)
        content[at + i] = static_cast<char>(i < 7 ? 0xff : 0x7f);
      break;
    case 3:  // an absurd number, where a number stands in text
      if (const auto digit = content.find_first_of("0123456789", below(content.size())); digit != std::string::npos)
        content.replace(digit, 1, "99999999999999");
      break;
    default:  // a page of zeros
      for (std::size_t i = 0, at = below(content.size()); i < 512 && at + i < content.size(); ++i) content[at + i] = 0;
  }
  return content;
}

std::int64_t size_of(void* memory) { return static_cast<std::int64_t>(malloc_usable_size(memory)); }

}  // namespace

WatchedAllocator::WatchedAllocator() : usual_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/100); }
WatchedAllocator::~WatchedAllocator() { c10::SetCPUAllocator(usual_, /*priority=*/100); }

c10::DataPtr WatchedAllocator::allocate(std::size_t size) {
  if (size > limit) throw std::length_error("an allocation of " + std::to_string(size) + " bytes");
  void* memory = c10::alloc_cpu(size);
  test::count_allocation(size_of(memory));
  return {memory, memory, raw_deleter(), c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr WatchedAllocator::raw_deleter() const {
  return [](void* memory) {
    test::count_allocation(-size_of(memory));
    c10::free_cpu(memory);
  };
}

std::string gzipped(const std::string& text) {
  std::vector<char> packed(2 * text.size() + 1024);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  return std::string(packed.data(), stream.total_out);
}

bool Fuzz::refuses(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& read) {
  const std::size_t most = kMost * std::filesystem::file_size(file);
  bool refused = false;
  allocator_.limit = std::max<std::size_t>(most, 4096);
  test::forget_allocations();
  try {
    read(file);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(scratch_.path().string()), std::string::npos) << error.what();
    refused = true;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no error of ours: " << error.what();
  }
  EXPECT_LE(test::largest_allocation(), std::max<std::size_t>(most, 1 << 17));
  EXPECT_LE(test::most_allocated(), most + (1 << 20));
  allocator_.limit = static_cast<std::size_t>(-1);
  return refused;
}

int Fuzz::refused(const std::string& name, const std::string& content,
                  const std::function<void(const std::filesystem::path&)>& read) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(name)));
  int count = 0;
  for (int i = 0; i < kFiles; ++i) {
    SCOPED_TRACE(name + " " + std::to_string(i));
    count += refuses(scratch_.write(name, damaged(content, random)), read) ? 1 : 0;
  }
  return count;
}

}  // namespace lockstep::train
