# lockstep::cuda and lockstep::cuda_libraries from the wheels that torch's own wheel asks for, as pip installs them into one
# folder (site-packages): no CUDA toolkit and no GPU is needed to build. `ci/setup --cuda` makes such a folder.

set(parts torch/version.py torch/lib/libtorch_cuda.so torch/lib/libc10_cuda.so nvidia/cu13/include/cuda_runtime_api.h
  nvidia/cu13/lib/libcudart.so.13 nvidia/nccl/include/nccl.h nvidia/nccl/lib/libnccl.so.2 nvidia/cudnn/lib/libcudnn.so.9)
foreach(part ${parts})
  if(NOT EXISTS ${LOCKSTEP_CUDA_ROOT}/${part})
    message(FATAL_ERROR "No CUDA LibTorch in '${LOCKSTEP_CUDA_ROOT}' (no ${part}).\nRun ci/setup --cuda, or give -DLOCKSTEP_CUDA_ROOT=<site-packages with torch ${LOCKSTEP_TORCH_VERSION} of PyPI and the NVIDIA wheels it names>.")
  endif()
endforeach()
file(SHA256 ${LOCKSTEP_TORCH_ROOT}/torch/version.py headers)
file(SHA256 ${LOCKSTEP_CUDA_ROOT}/torch/version.py libraries)
if(NOT headers STREQUAL libraries)
  message(FATAL_ERROR "LibTorch's headers (${LOCKSTEP_TORCH_ROOT}) and CUDA libraries (${LOCKSTEP_CUDA_ROOT}) are of different builds: their torch/version.py differ.")
endif()

add_library(lockstep::cuda INTERFACE IMPORTED)
target_include_directories(lockstep::cuda SYSTEM INTERFACE
  ${LOCKSTEP_CUDA_ROOT}/nvidia/cu13/include ${LOCKSTEP_CUDA_ROOT}/nvidia/nccl/include)
target_compile_definitions(lockstep::cuda INTERFACE USE_C10D_NCCL)
target_link_libraries(lockstep::cuda INTERFACE lockstep::torch)

add_library(lockstep::cuda_libraries INTERFACE IMPORTED)
target_link_libraries(lockstep::cuda_libraries INTERFACE ${LOCKSTEP_CUDA_ROOT}/torch/lib/libtorch_cuda.so
  ${LOCKSTEP_CUDA_ROOT}/torch/lib/libc10_cuda.so ${LOCKSTEP_CUDA_ROOT}/nvidia/cu13/lib/libcudart.so.13)
foreach(wheel cu13 cudnn nccl cusparselt nvshmem)  # what libtorch_cuda.so needs itself
  target_link_options(lockstep::cuda_libraries INTERFACE -Wl,-rpath-link,${LOCKSTEP_CUDA_ROOT}/nvidia/${wheel}/lib)
endforeach()
