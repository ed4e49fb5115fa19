#include "harness/launch/progress.h"

#include <array>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "harness/base/progress_memory.h"
#include "harness/launch/descriptor.h"

namespace lockstep::launch {
namespace {

constexpr std::array<std::string_view, 7> kPhaseNames = {"start",     "data",   "forward", "backward",
                                                         "optimizer", "record", "done"};

// A recorder tells of a step that it is in the forward pass: it cannot know better.
static_assert(static_cast<std::int64_t>(Phase::kStart) == ProgressMemory::kStart);
static_assert(static_cast<std::int64_t>(Phase::kForward) == ProgressMemory::kInStep);
static_assert(static_cast<std::int64_t>(Phase::kRecord) == ProgressMemory::kRecorded);
static_assert(static_cast<std::int64_t>(Phase::kDone) == ProgressMemory::kDone);

/// The words of a ProgressMemory, as copied out of the file.
struct Image {
  std::uint64_t magic;
  std::uint64_t beats;
  struct {
    std::int64_t step;
    std::int64_t phase;
  } slots[2];
  std::uint64_t collectives;
  char names[2][ProgressMemory::kNameBytes];
  std::uint64_t before_step;
};
static_assert(sizeof(Image) == sizeof(ProgressMemory));

bool read_image(const Descriptor& file, Image& image) {
  return ::pread(file.number(), &image, sizeof(image), 0) == static_cast<ssize_t>(sizeof(image));
}

}  // namespace

std::string_view name_of(Phase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }

ProgressWriter::ProgressWriter(const std::filesystem::path& path) : memory_(map_progress(path)) {}

ProgressWriter::~ProgressWriter() { unmap_progress(static_cast<ProgressMemory*>(memory_)); }

void ProgressWriter::report(std::int64_t step, Phase phase) {
  static_cast<ProgressMemory*>(memory_)->report(step, static_cast<std::int64_t>(phase));
}

void ProgressWriter::count_collective(std::string_view collective) {
  static_cast<ProgressMemory*>(memory_)->count_collective(collective);
}

Progress read_progress(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Image image{};
  Image again{};
  if (!file || !read_image(file, image)) return {};
  // By read, not by map: a file that is cut short under a map would kill the supervisor. Two equal copies in a row mean
  // that no beat came in between, so the slot of that beat is whole.
  constexpr int kTries = 10000;  // of a microsecond: one rank may beat a million times in a second
  for (int i = 0; i < kTries && read_image(file, again) && std::memcmp(&image, &again, sizeof(image)) != 0; ++i) {
    image = again;
  }
  if (image.magic != ProgressMemory::kMagic) return {};
  const auto name = [&](std::uint64_t count) {
    const char* text = image.names[count % 2];
    return std::string(text, ::strnlen(text, ProgressMemory::kNameBytes));
  };
  const std::string collective = name(image.collectives), previous = name(image.collectives + 1);
  if (image.beats == 0) return {.collectives = image.collectives, .collective = collective, .beats = image.collectives};
  const auto& slot = image.slots[image.beats % 2];
  if (slot.phase < 0 || slot.phase >= static_cast<std::int64_t>(kPhaseNames.size())) return {};
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
