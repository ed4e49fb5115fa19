#pragma once

#include "harness/launch/place/place_reader.h"

/// Places as an mpirun gives them. Address and port are MASTER_ADDR and MASTER_PORT: MPI has no variables for them.
namespace lockstep::launch {

/// Names of the variables of one implementation.
struct MpiVariables {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

inline constexpr MpiVariables kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "OMPI_COMM_WORLD_LOCAL_SIZE"};
inline constexpr MpiVariables kMvapich = {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
                                          "MV2_COMM_WORLD_LOCAL_SIZE"};
/// MPICH and Intel MPI; also `srun --mpi=pmi2`.
inline constexpr MpiVariables kPmi = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

/// With ranks on several nodes, MASTER_ADDR is required.
Place place_of_mpi(Reader& reader, const MpiVariables& names);

}  // namespace lockstep::launch
