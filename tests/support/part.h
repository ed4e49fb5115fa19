#pragma once

#include <cstddef>

namespace lockstep::test {

/// Whether this run of the tests takes case `index` of a long list: LOCKSTEP_TEST_PART=2/4 takes a quarter of every
/// list, and the four parts together take all. Without the variable every case is taken, as in ci/full.
///
/// Neighbours of one row fall into one part no more often than chance has it: a list's inner factor does not choose.
bool in_part(std::size_t index);

/// Whether an entry of a list is in the part; the list may be shorter than the number of parts: never none of it.
bool in_part(std::size_t index, std::size_t count);

/// Whether all cases are taken.
bool takes_all();

}  // namespace lockstep::test
