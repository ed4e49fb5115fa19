#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/laws/held.h"
#include "harness/laws/scales.h"

namespace lockstep::diagnosis {
namespace {

using compare::Divergence;
using compare::Suspect;
using laws::Held;
using trace::Channel;
using trace::Record;

/// A rank's tensor, and what it should be.
struct Astray {
  const trace::RunTrace* run = nullptr;
  std::size_t rank = 0;
  Held held, reference;
  std::string of_reference;
};

/// The one rank of a run whose tensor is none of the others'. Of two ranks it is the one that the other side does not
/// hold.
std::optional<Astray> odd_rank(const Side& side, const Side& other, const Divergence& at) {
  std::vector<Held> held;
  for (std::size_t rank = 0; rank < side.run->ranks.size(); ++rank) held.emplace_back(*side.run, rank, at.step);
  const auto of = [&](std::size_t rank) { return held[rank].find(at.channel, at.tensor); };
  std::vector<std::size_t> odd;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    const auto agreeing = static_cast<std::size_t>(std::count_if(held.begin(), held.end(), [&](const Held& h) {
      return trace::same_bits(h.find(at.channel, at.tensor), of(rank));
    }));
    if (of(rank) != nullptr && agreeing == 1) odd.push_back(rank);
  }
  if (held.size() == 2 && odd.size() == 2 && other && other.run != side.run) {
    const Record* theirs = other.find(at.step, at.channel, at.tensor);
    std::erase_if(odd, [&](std::size_t rank) { return trace::same_bits(of(rank), theirs); });
  } else if (held.size() == 2 && odd.size() == 2) {
    odd.erase(odd.begin());  // nothing tells which; the report says so
  }
  if (odd.size() != 1 || held.size() < 2) return std::nullopt;
  const std::size_t next = odd[0] == 0 ? 1 : 0;
  return Astray{side.run, odd[0], held[odd[0]], held[next], "rank " + std::to_string(next)};
}

/// Buckets that hold this share of a difference hold it.
constexpr double kHeld = 0.999;

/// Few elements fill few buckets: this share of those that the tensor's elements fill at most. Of fewer elements than
/// `kLeastElements` one is no small part.
constexpr double kFewBuckets = 1.0 / 8, kLeastElements = 4;

/// A tensor this near to the reference, relative to the one that is astray, is right.
constexpr double kRight = 0.1;

/// Squares of what two records are apart by, bucket by bucket, the largest first.
std::vector<double> apart(const Record& a, const Record& b) {
  std::vector<double> squares;
  for (std::size_t i = 0; i < trace::Sketch::kBuckets; ++i) {
    const double difference = a.sketch->buckets[i] - b.sketch->buckets[i];
    squares.push_back(std::isfinite(difference) ? difference * difference : HUGE_VAL);
  }
  std::sort(squares.rbegin(), squares.rend());
  return squares;
}

/// Buckets that hold the difference, all but a trifle; 0 where there is none.
std::size_t buckets_apart(const Record& a, const Record& b) {
  const std::vector<double> squares = apart(a, b);
  if (std::isinf(squares[0])) return static_cast<std::size_t>(std::count(squares.begin(), squares.end(), HUGE_VAL));
  double all = 0, held = 0;
  for (const double square : squares) all += square;
  std::size_t count = 0;
  while (all > 0 && held < kHeld * all) held += squares[count++];
  return count;
}

double distance(const Record& a, const Record& b) {
  double all = 0;
  for (const double square : apart(a, b)) all += square;
  return std::sqrt(all);
}

bool few_elements(const Record& a, const Record& b) {
  if (!a.sketch || !b.sketch || a.shape != b.shape || laws::count_of(a) < kLeastElements) return false;
  const double occupied = std::min(laws::count_of(a), static_cast<double>(trace::Sketch::kBuckets));
  const auto buckets = static_cast<double>(buckets_apart(a, b));
  return buckets > 0 && buckets <= std::max(1.0, occupied * kFewBuckets);
}

/// Whether no other tensor of the channel is as far apart.
bool alone(const Astray& at, Channel channel, const std::string& tensor) {
  const double its = distance(*at.held.find(channel, tensor), *at.reference.find(channel, tensor));
  for (const Record* record : at.held.all(channel)) {
    const Record* reference = at.reference.find(channel, record->name);
    if (record->name == tensor || reference == nullptr || !record->sketch || !reference->sketch) continue;
    if (record->shape != reference->shape || distance(*record, *reference) > kRight * its) return false;
  }
  return true;
}

/// Whether a rank's tensors of a channel are the reference's.
bool agrees(const Astray& at, Channel channel) {
  const auto records = at.held.all(channel);
  return std::all_of(records.begin(), records.end(), [&](const Record* record) {
    return trace::same_bits(record, at.reference.find(channel, record->name));
  });
}

/// Whether what the tensor was made from agrees.
bool made_alike(const Astray& at, Channel channel) {
  if (channel == Channel::kGradient) return true;
  if (!agrees(at, Channel::kGradient)) return false;
  if (channel == Channel::kOptimizer) return true;
  if (!agrees(at, Channel::kOptimizer)) return false;
  return channel == Channel::kWeight || agrees(at, Channel::kWeight);
}

std::vector<Suspect> suspects_of(const Astray& at, const Divergence& where) {
  const Record *its = at.held.find(where.channel, where.tensor),
               *right = at.reference.find(where.channel, where.tensor);
  if (its == nullptr || right == nullptr || !few_elements(*its, *right) || !alone(at, where.channel, where.tensor))
    return {};
  const std::size_t buckets = buckets_apart(*its, *right);
  return {{"hw.sdc_rank",
           {"step " + std::to_string(where.step) + ", " + at.run->run + ": " + std::string(name_of(where.channel)) +
                " " + where.tensor + " of rank " + std::to_string(at.rank) + " differs from " + at.of_reference +
                " in " + std::to_string(buckets) + " of " + std::to_string(trace::Sketch::kBuckets) +
                " buckets of its sketch: one or few of " + to_decimal(laws::count_of(*its)) + " elements",
            "largest element " + rounded(its->max_abs.value_or(0), 5) + " against " +
                rounded(right->max_abs.value_or(0), 5) + "; no other " + std::string(name_of(where.channel)) +
                " tensor is as far apart"}}};
}

}  // namespace

std::vector<Suspect> suspects_in_corruption(const Scene& scene) {
  if (!scene.right || !(scene.at.channel == Channel::kGradient || trace::info(scene.at.channel).is_state())) return {};
  for (const auto& [side, other] : {std::pair(&scene.right, &scene.left), {&scene.left, &scene.right}}) {
    const auto odd = *side ? odd_rank(*side, *other, scene.at) : std::nullopt;
    if (odd) return made_alike(*odd, scene.at.channel) ? suspects_of(*odd, scene.at) : std::vector<Suspect>{};
  }
  // Two trainings of one rank: what one was made from agreed up to here, or the divergence would be there.
  if (!scene.left || scene.left.run->world_size() != 1 || scene.right.run->world_size() != 1) return {};
  return suspects_of({scene.right.run, 0, Held(*scene.right.run, 0, scene.at.step),
                      Held(*scene.left.run, 0, scene.at.step), scene.left.run->run},
                     scene.at);
}

}  // namespace lockstep::diagnosis
