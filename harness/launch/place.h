#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/variables.h"

namespace lockstep::launch {

/// Place of a rank in its run, as its launcher set it.
struct Place {
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::int64_t world_size = 1;
  std::optional<std::int64_t> node;  ///< nothing: the launcher does not say
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::string store_file;                    ///< by which the ranks meet, instead of a store at `master_address`
  std::string store_prefix;                  ///< of keys in the store that the launcher serves; "": rank 0 serves one
  std::optional<int> listen_descriptor;      ///< only rank 0: socket that already listens on `master_port`
  std::optional<int> supervisor_descriptor;  ///< pipe whose other end closes when lockstep dies
  std::string run_id;                        ///< of lockstep's run; "": it belongs to none
  std::string supervisor_process;            ///< lockstep's process, if another launcher started this rank for it
  std::int64_t step_delay_ms = 0;            ///< pause before the backward pass of every micro-batch

  bool operator==(const Place&) const = default;
};

/// A place, and where it was read.
struct Resolution {
  std::string launcher;  ///< its name in the table of place.cpp: "torchrun"
  Place place;
  std::vector<std::string> variables;  ///< names of those that were read, in this order
};

/// Reads a rank's place from variables, and from arguments such as "rank=0" or "--local-rank=0". Each kind of launcher
/// has a file in place/ and a row in the table of place.cpp. The innermost of several kinds decides; the others must
/// agree with it.
/// *Throws*: InputError that names a variable that is missing, is not a number, or contradicts another.
Resolution resolve_place(const Environment& environment, const std::vector<std::string>& arguments = {});

/// The place of this process. *Throws*: InputError also if the launcher's store does not answer, as when variables of
/// torchrun are left over in a shell.
Resolution place_of_this_process(const std::vector<std::string>& arguments = {});

/// Removes what any launcher said of this process: a program that starts ranks would take it for its own.
void forget_place(Environment& environment);

}  // namespace lockstep::launch
