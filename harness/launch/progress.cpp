#include "harness/launch/progress.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/launch/descriptor.h"

namespace lockstep::launch {
namespace {

constexpr std::uint64_t kMagic = 0x327373657267706cU;  // "lpgress2" in memory
constexpr std::array<std::string_view, 7> kPhases = {"start",     "data",   "forward", "backward",
                                                     "optimizer", "record", "done"};

/// Words that hold the name of a collective, zeros behind it.
constexpr std::size_t kNameWords = 6;
constexpr std::size_t kNameBytes = kNameWords * sizeof(std::uint64_t);

/// Two slots, so that the one which `beats` points at is never being written: a writer that dies at any instruction
/// leaves a readable file.
struct Memory {
  struct Slot {
    std::atomic<std::int64_t> step;
    std::atomic<std::int64_t> phase;
  };
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> beats;
  std::array<Slot, 2> slots;
  std::atomic<std::uint64_t> collectives;
  std::array<std::array<std::atomic<std::uint64_t>, kNameWords>, 2> names;  ///< of the last two collectives
  std::atomic<std::uint64_t> before_step;                                   ///< collectives when this step began
};
static_assert(sizeof(Memory) == 160);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// The words of a Memory, as copied out of the file.
struct Image {
  std::uint64_t magic;
  std::uint64_t beats;
  struct {
    std::int64_t step;
    std::int64_t phase;
  } slots[2];
  std::uint64_t collectives;
  char names[2][kNameBytes];
  std::uint64_t before_step;
};
static_assert(sizeof(Image) == sizeof(Memory));

bool read_image(const Descriptor& file, Image& image) {
  return ::pread(file.number(), &image, sizeof(image), 0) == static_cast<ssize_t>(sizeof(image));
}

[[noreturn]] void throw_failure(const std::filesystem::path& path, int error) {
  throw ResourceError(
      {.what = std::string("cannot create a progress file: ") + std::strerror(error), .where = path.string()});
}

}  // namespace

std::string_view name_of(Phase phase) { return kPhases.at(static_cast<std::size_t>(phase)); }

ProgressWriter::ProgressWriter(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) throw_failure(path, errno);
  // Really allocated: on a full disk this fails here, where it can be said, instead of as SIGBUS at the first report.
  if (const int error = ::posix_fallocate(file.number(), 0, sizeof(Memory)); error != 0) throw_failure(path, error);
  void* const memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) throw_failure(path, errno);
  memory_ = memory;
  static_cast<Memory*>(memory_)->magic.store(kMagic, std::memory_order_release);
}

ProgressWriter::~ProgressWriter() { ::munmap(memory_, sizeof(Memory)); }

void ProgressWriter::report(std::int64_t step, Phase phase) {
  auto& memory = *static_cast<Memory*>(memory_);
  const std::uint64_t beat = memory.beats.load(std::memory_order_relaxed) + 1;
  Memory::Slot& slot = memory.slots[beat % 2];
  if (beat == 1 || memory.slots[(beat - 1) % 2].step.load(std::memory_order_relaxed) != step)
    memory.before_step.store(memory.collectives.load(std::memory_order_relaxed), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // the last beat is out before its predecessor's slot changes
  slot.step.store(step, std::memory_order_relaxed);
  slot.phase.store(static_cast<std::int64_t>(phase), std::memory_order_relaxed);
  memory.beats.store(beat, std::memory_order_release);
}

void ProgressWriter::count_collective(std::string_view collective) {
  auto& memory = *static_cast<Memory*>(memory_);
  const std::uint64_t count = memory.collectives.load(std::memory_order_relaxed) + 1;
  std::array<char, kNameBytes> name{};
  collective.substr(0, kNameBytes - 1).copy(name.data(), name.size());
  for (std::size_t i = 0; i < kNameWords; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, name.data() + i * sizeof(word), sizeof(word));
    memory.names[count % 2][i].store(word, std::memory_order_relaxed);
  }
  memory.collectives.store(count, std::memory_order_release);
}

Progress read_progress(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Image image{};
  Image again{};
  if (!file || !read_image(file, image)) return {};
  // By read, not by map: a file that is cut short under a map would kill the supervisor. Two equal copies in a row mean
  // that no beat came in between, so the slot of that beat is whole.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && read_image(file, again) && std::memcmp(&image, &again, sizeof(image)) != 0; ++i) {
    image = again;
  }
  if (image.magic != kMagic) return {};
  const auto name = [&](std::uint64_t count) {
    const char* text = image.names[count % 2];
    return std::string(text, ::strnlen(text, kNameBytes));
  };
  const std::string collective = name(image.collectives), previous = name(image.collectives + 1);
  if (image.beats == 0) return {.collectives = image.collectives, .collective = collective, .beats = image.collectives};
  const auto& slot = image.slots[image.beats % 2];
  if (slot.phase < 0 || slot.phase >= static_cast<std::int64_t>(kPhases.size())) return {};
  return {.step = slot.step,
          .phase = static_cast<Phase>(slot.phase),
          .collectives = image.collectives,
          .collective = collective,
          .previous = previous,
          .before_step = image.before_step,
          .beats = image.beats + image.collectives};
}

std::filesystem::path progress_path(const std::filesystem::path& run_directory, std::int64_t rank) {
  return run_directory / ("rank" + std::to_string(rank) + ".progress");
}

}  // namespace lockstep::launch
