#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/place.h"
#include "harness/launch/variables.h"

/// Shared by the resolvers of all launchers.
namespace lockstep::launch {

constexpr std::int64_t kMostRanks = 1 << 20;

/// Allowed values of a variable, both ends included.
struct Range {
  std::int64_t low = 0;
  std::int64_t high = kMostRanks;
};

/// Reads variables, and remembers the names of those that it found.
class Reader {
 public:
  /// *Lifetime*: borrows `environment`.
  explicit Reader(const Environment& environment) : environment_(environment) {}

  /// Whether a variable is set. Does not count as read.
  bool has(const std::string& name) const { return environment_.contains(name); }

  /// Nothing if it is not set. *Throws*: InputError if it is empty.
  std::optional<std::string> text(const std::string& name);

  /// A whole decimal number and nothing else; nothing if it is not set. *Throws*: InputError.
  std::optional<std::int64_t> number(const std::string& name, Range range);

  /// *Throws*: InputError also if it is not set.
  std::int64_t required(const std::string& name, Range range);

  const std::vector<std::string>& found() const { return found_; }

 private:
  const Environment& environment_;
  std::vector<std::string> found_;
};

/// A number that may stand in several variables; all that are set must agree. A null name is none.
std::optional<std::int64_t> agreed(Reader& reader, std::initializer_list<const char*> names, Range range);

/// MASTER_ADDR and MASTER_PORT. With more than one rank the port is required, and the address unless `place` has one.
void read_master(Reader& reader, Place& place);

/// One variable is wrong. *Throws*: InputError.
[[noreturn]] void refuse(const std::string& name, std::string expected, std::string actual);

/// Variables that do not go together. `names`: "RANK and SLURM_PROCID". *Throws*: InputError.
[[noreturn]] void refuse_contradiction(const std::string& names, std::string expected, std::string actual,
                                       std::string next);

}  // namespace lockstep::launch
