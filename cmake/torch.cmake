# Imported target lockstep::torch: LibTorch from an unpacked PyPI wheel. With LOCKSTEP_CUDA also lockstep::cuda, for the
# files that see CUDA and NCCL, and lockstep::cuda_libraries, which the worker links.
#
# find_package(Torch) of a CUDA wheel insists on a CUDA toolkit; a CPU program needs only torch_cpu and c10.

set(LOCKSTEP_TORCH_VERSION 2.11.0)
set(LOCKSTEP_CACHE "$ENV{LOCKSTEP_CACHE}")
if(NOT LOCKSTEP_CACHE)
  set(LOCKSTEP_CACHE "$ENV{HOME}/.cache/lockstep")
endif()
if(NOT LOCKSTEP_TORCH_ROOT)
  set(LOCKSTEP_TORCH_ROOT ${LOCKSTEP_CACHE}/torch-${LOCKSTEP_TORCH_VERSION})
endif()

set(version_file ${LOCKSTEP_TORCH_ROOT}/torch/version.py)
if(NOT EXISTS ${version_file})
  message(FATAL_ERROR "No LibTorch in ${LOCKSTEP_TORCH_ROOT} (no torch/version.py).\nRun ci/setup, or give -DLOCKSTEP_TORCH_ROOT=<folder with torch/ of the wheel torch ${LOCKSTEP_TORCH_VERSION}>.")
endif()
file(STRINGS ${version_file} version_line REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" found_version "${version_line}")
if(NOT found_version STREQUAL LOCKSTEP_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch in ${LOCKSTEP_TORCH_ROOT} is ${found_version}; lockstep needs ${LOCKSTEP_TORCH_VERSION}: other versions compute other bits.")
endif()

find_path(GLOO_INCLUDE gloo/context.h REQUIRED)

add_library(lockstep::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(lockstep::torch SYSTEM INTERFACE
  ${LOCKSTEP_TORCH_ROOT}/torch/include ${LOCKSTEP_TORCH_ROOT}/torch/include/torch/csrc/api/include)
# As the wheel was built: without NDEBUG some of its classes have members more.
target_compile_definitions(lockstep::torch INTERFACE USE_C10D_GLOO NDEBUG)
target_compile_options(lockstep::torch INTERFACE -fmacro-prefix-map=${LOCKSTEP_TORCH_ROOT}/=)  # as in CMakeLists.txt
set(libraries ${LOCKSTEP_TORCH_ROOT})
if(LOCKSTEP_CUDA)
  set(libraries ${LOCKSTEP_CUDA_ROOT})  # libtorch_cuda.so needs the libtorch_cpu.so beside it: one wheel's, as checked below
endif()
target_link_libraries(lockstep::torch INTERFACE ${libraries}/torch/lib/libtorch_cpu.so ${libraries}/torch/lib/libc10.so)
target_link_options(lockstep::torch INTERFACE
  -Wl,-rpath,${libraries}/torch/lib -Wl,-rpath-link,${libraries}/nvidia/cu13/lib)

if(LOCKSTEP_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
endif()
