#include "harness/base/progress_memory.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace lockstep {
namespace {

/// The mapped file, or MAP_FAILED with errno.
void* map_new_file(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return MAP_FAILED;
  // Really allocated: on a full disk this fails here, where it can be said, instead of as SIGBUS at the first report.
  int error = ::posix_fallocate(file, 0, sizeof(ProgressMemory));
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = ::mmap(nullptr, sizeof(ProgressMemory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    error = errno;
  }
  ::close(file);
  errno = error;
  return memory;
}

}  // namespace

ProgressMemory* map_progress(const std::filesystem::path& path) {
  void* const memory = map_new_file(path);
  if (memory == MAP_FAILED)
    throw ResourceError(
        {.what = std::string("cannot create a progress file: ") + std::strerror(errno), .where = path.string()});
  auto* const progress = static_cast<ProgressMemory*>(memory);
  progress->magic.store(ProgressMemory::kMagic, std::memory_order_release);
  return progress;
}

void unmap_progress(ProgressMemory* memory) { ::munmap(memory, sizeof(ProgressMemory)); }

void ProgressMemory::report(std::int64_t step, std::int64_t phase) {
  const std::uint64_t beat = beats.load(std::memory_order_relaxed) + 1;
  Slot& slot = slots[beat % 2];
  if (beat == 1 || slots[(beat - 1) % 2].step.load(std::memory_order_relaxed) != step)
    before_step.store(collectives.load(std::memory_order_relaxed), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // the last beat is out before its predecessor's slot changes
  slot.step.store(step, std::memory_order_relaxed);
  slot.phase.store(phase, std::memory_order_relaxed);
  beats.store(beat, std::memory_order_release);
}

void ProgressMemory::count_collective(std::string_view collective) {
  const std::uint64_t count = collectives.load(std::memory_order_relaxed) + 1;
  std::array<char, kNameBytes> name{};
  collective.substr(0, kNameBytes - 1).copy(name.data(), name.size());
  for (std::size_t i = 0; i < kNameWords; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, name.data() + i * sizeof(word), sizeof(word));
    names[count % 2][i].store(word, std::memory_order_relaxed);
  }
  collectives.store(count, std::memory_order_release);
}

}  // namespace lockstep
