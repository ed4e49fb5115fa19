#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"
#include "harness/trace/channel.h"
#include "harness/trace/checkpoint_files.h"
#include "harness/trace/digest.h"
#include "harness/trace/dtype.h"
#include "harness/trace/shard.h"
#include "harness/trace/sketch.h"

namespace lockstep::trace {

/// Step number of the state before the first update.
inline constexpr std::int64_t kInitialStep = -1;

/// A part of a joined tensor.
struct RankPart {
  std::int64_t rank = 0;
  std::string box;  ///< its elements: "[0:17, 0:34] of [34, 34]"
  Digest digest;

  bool operator==(const RankPart&) const = default;
};

/// One recorded tensor, number or text.
struct Record {
  Channel channel = Channel::kSamples;
  std::string name;
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;
  Digest digest;                       ///< of a joined tensor the sum
  std::optional<Digest> sum;           ///< additive_digest.h, where tensors may be sharded
  std::optional<Shard> shard;          ///< of a rank's part, whose `shape` is the part's
  bool is_joined = false;              ///< made of the shards of several ranks
  std::vector<RankPart> parts;         ///< of a joined tensor; absent in goldens
  bool is_repeated = false;            ///< joined of parts that all hold the same elements, which differ
  std::string layout;                  ///< "dp_shard=2: S(0)", of a tensor that was made of shards
  std::optional<double> norm;          ///< L2 norm of a floating tensor
  std::optional<double> max_abs;       ///< largest |x| of a floating tensor
  std::optional<Sketch> sketch;        ///< absent in goldens
  std::vector<double> elements;        ///< a sample of a floating tensor's elements; absent in goldens
  std::vector<std::uint64_t> rows;     ///< digest of each sample in an input; absent in goldens
  std::vector<std::int64_t> integers;  ///< the elements themselves, where they are few and matter (ids, counters); of a
                                       ///< generator its seed, and its place among the numbers that it makes at once
  std::optional<double> number;        ///< the element itself, of a floating scalar
  std::string text;                    ///< of a textual record (`dtype` uint8)

  bool operator==(const Record&) const = default;
};

/// Whether both are there, of one type and shape, with equal bits.
bool same_bits(const Record* a, const Record* b);

/// Whether `same_bits` can tell: one that was joined of shards has no digest but its sum.
bool are_comparable(const Record& a, const Record& b);

/// Whether records of this name explain differences and are none: what a recorder counted of a program's calls, and
/// gradients before a script changed them. Scripts that compute the same may call otherwise.
bool is_note(Channel channel, std::string_view name);

/// Everything one rank recorded in one step, ordered by channel and, inside a channel, as the training met it.
struct Step {
  std::int64_t step = 0;  ///< number of updates done before; kInitialStep for the state at the start
  std::vector<Record> records;

  bool operator==(const Step&) const = default;

  const Record* find(Channel channel, std::string_view name) const;
};

/// Trace of one rank of one run.
struct Trace {
  std::string origin;  ///< file it was read from: for messages, and what was captured lies beside it
  Json header;         ///< first line: format, run, rank, environment
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::vector<Step> steps;
  bool complete = false;            ///< the closing line is there
  std::string torn;                 ///< what is missing, when it is not complete
  std::vector<std::string> damage;  ///< damaged lines that could still be read (only with Damage::kReport)

  const Step* find(std::int64_t step) const;

  /// The record at a place; null where the trace lacks it.
  const Record* find(std::int64_t step, Channel channel, std::string_view name) const;
};

/// Traces of all ranks of one run, by rank.
struct RunTrace {
  std::string run;  ///< its name, for messages
  std::vector<Trace> ranks;
  std::vector<CheckpointFile> files;   ///< that its recorders reported; read where a run goes on from another
  std::set<std::string> written = {};  ///< files that the command names and its ranks wrote: no inputs
  std::string unplaced;  ///< why the update with which it goes on is unknown; empty: it is known, or it begins anew

  std::int64_t world_size() const { return static_cast<std::int64_t>(ranks.size()); }

  /// File and missing part of the first rank whose trace is torn; empty: all are whole.
  std::string torn() const;
};

}  // namespace lockstep::trace
