#include "harness/launch/place/mpi.h"

namespace lockstep::launch {

Place place_of_mpi(Reader& reader, const MpiVariables& names) {
  Place place;
  place.world_size = reader.required(names.size, {1, kMostRanks});
  place.rank = reader.required(names.rank, {0, place.world_size - 1});
  place.local_rank = agreed(reader, {names.local_rank, "LOCAL_RANK"}, {0, place.world_size - 1}).value_or(place.rank);
  const auto local_size = reader.number(names.local_size, {1, place.world_size});
  if (local_size) reader.number(names.local_rank, {0, *local_size - 1});
  const bool one_node = !local_size || *local_size == place.world_size;
  if (one_node && local_size) place.node = 0;
  if (!one_node) place.master_address.clear();
  read_master(reader, place);
  return place;
}

}  // namespace lockstep::launch
