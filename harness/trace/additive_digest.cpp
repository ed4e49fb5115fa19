#include "harness/trace/additive_digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "harness/base/error.h"

namespace lockstep::trace {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

using Wide = unsigned __int128;

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::size_t kBlockWords = 256;
constexpr Wide kPrime = (Wide{1} << 127) - 1;

/// SplitMix64. *Source*: Steele, Lea, Flood 2014.
constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Keys of a word by its place in its block. None is 0, and no two are equal: mix is a bijection with mix(z) = 0 for
/// another z.
constexpr std::array<std::uint64_t, kBlockWords> kKeys = [] {
  std::array<std::uint64_t, kBlockWords> keys{};
  for (std::size_t i = 0; i < kBlockWords; ++i) keys[i] = mix(i);
  return keys;
}();
static_assert(std::find(kKeys.begin(), kKeys.end(), 0) == kKeys.end());

Wide reduced(Wide value) {  // of less than 2¹²⁸
  value = (value & kPrime) + (value >> 127);
  return value >= kPrime ? value - kPrime : value;
}

/// a × b mod 2¹²⁷ − 1, both below it.
Wide product(Wide a, Wide b) {
  const std::uint64_t a0 = static_cast<std::uint64_t>(a), a1 = static_cast<std::uint64_t>(a >> 64);
  const std::uint64_t b0 = static_cast<std::uint64_t>(b), b1 = static_cast<std::uint64_t>(b >> 64);
  // a1, b1 < 2⁶³: the middle is below 2¹²⁸. The whole is low + middle·2⁶⁴ + high·2¹²⁸, and 2¹²⁸ = 2 mod the prime.
  const Wide low = Wide{a0} * b0, middle = Wide{a0} * b1 + Wide{a1} * b0, high = Wide{a1} * b1;
  Wide sum = reduced(low);
  sum = reduced(sum + reduced((middle & (kPrime >> 64)) << 64));  // bits 0 … 62 of the middle, at 64 … 126
  sum = reduced(sum + (middle >> 63));                            // bit 63 of it is at 127, which is 2⁰
  return reduced(sum + reduced(high << 1));                       // high < 2¹²⁶
}

/// Key of a block of words.
Wide key_of_block(std::uint64_t block) {
  const Wide key = (Wide{mix(~block)} << 64 | mix(block + kBlockWords)) & kPrime;
  return key == 0 || key == kPrime ? 1 : key;
}

std::uint64_t word_at(const std::byte* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

/// The digest of bytes that come with their places, in rising order.
class Summing {
 public:
  /// Bytes at this place of the whole tensor.
  void add(std::size_t place, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      enter(place / kWordBytes / kBlockWords);
      const std::size_t word = place / kWordBytes % kBlockWords, shift = place % kWordBytes;
      const std::size_t room = (kBlockWords - word) * kWordBytes - shift;
      std::span<const std::byte> now = bytes.first(std::min(room, bytes.size()));
      place += now.size();
      bytes = bytes.subspan(now.size());
      add_to_block(word, shift, now);
    }
  }

  Digest digest() {
    leave();
    return {.high = static_cast<std::uint64_t>(total_ >> 64), .low = static_cast<std::uint64_t>(total_)};
  }

 private:
  void enter(std::uint64_t block) {
    if (block == block_) return;
    leave();
    block_ = block;
  }

  void leave() {
    // low + carries·2¹²⁸, with at most some words for each of 256 keys: carries are far below 2⁶⁴
    const Wide inner = reduced(reduced(low_) + (Wide{carries_} << 1));
    if (inner != 0) total_ = reduced(total_ + product(inner, key_of_block(block_)));
    low_ = carries_ = 0;
  }

  /// Bytes that a shard has not of a word are zero: words of its parts add up to the word.
  void add_to_block(std::size_t word, std::size_t shift, std::span<const std::byte> bytes) {
    if (shift > 0) {
      const std::size_t count = std::min(kWordBytes - shift, bytes.size());
      add_word(word_at(bytes.data(), count) << 8 * shift, kKeys[word++]);
      bytes = bytes.subspan(count);
    }
    Wide low = low_;
    std::uint64_t carries = carries_;
    const std::size_t whole = bytes.size() / kWordBytes;
    for (std::size_t i = 0; i < whole; ++i) {
      const Wide term = Wide{word_at(bytes.data() + i * kWordBytes, kWordBytes)} * kKeys[word + i];
      low += term;
      carries += low < term;
    }
    low_ = low;
    carries_ = carries;
    const std::size_t rest = bytes.size() % kWordBytes;
    if (rest > 0) add_word(word_at(bytes.data() + whole * kWordBytes, rest), kKeys[word + whole]);
  }

  void add_word(std::uint64_t word, std::uint64_t key) {
    const Wide term = Wide{word} * key;
    low_ += term;
    carries_ += low_ < term;
  }

  std::uint64_t block_ = 0;
  Wide low_ = 0;  ///< of the block that is entered
  std::uint64_t carries_ = 0;
  Wide total_ = 0;
};

}  // namespace

Digest additive_digest_of(std::span<const std::byte> elements) {
  Summing summing;
  summing.add(0, elements);
  return summing.digest();
}

Digest additive_digest_of(DType dtype, const Shard& shard, std::span<const std::int64_t> shape,
                          std::span<const std::byte> elements) {
  const std::size_t size = bytes_of(dtype);
  LOCKSTEP_CHECK(elements.size() == count_of(shape) * size);
  Summing summing;
  for_each_run(shard, shape, [&](const ElementRun& run) {
    summing.add(run.in_whole * size, elements.subspan(run.in_box * size, run.count * size));
  });
  return summing.digest();
}

Digest sum_of(const Digest& a, const Digest& b) {
  const auto value = [](const Digest& digest) { return reduced(Wide{digest.high} << 64 | digest.low); };
  const Wide sum = reduced(value(a) + value(b));
  return {.high = static_cast<std::uint64_t>(sum >> 64), .low = static_cast<std::uint64_t>(sum)};
}

}  // namespace lockstep::trace
