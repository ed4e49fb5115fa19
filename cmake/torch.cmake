# Imported target lockstep::torch: LibTorch (CPU) from an unpacked PyPI wheel.
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

add_library(lockstep::torch INTERFACE IMPORTED)
target_include_directories(lockstep::torch SYSTEM INTERFACE
  ${LOCKSTEP_TORCH_ROOT}/torch/include ${LOCKSTEP_TORCH_ROOT}/torch/include/torch/csrc/api/include)
# As the wheel was built: without NDEBUG some of its classes have members more.
target_compile_definitions(lockstep::torch INTERFACE USE_C10D_GLOO NDEBUG)
target_link_libraries(lockstep::torch INTERFACE ${LOCKSTEP_TORCH_ROOT}/torch/lib/libtorch_cpu.so ${LOCKSTEP_TORCH_ROOT}/torch/lib/libc10.so)
target_link_options(lockstep::torch INTERFACE
  -Wl,-rpath,${LOCKSTEP_TORCH_ROOT}/torch/lib -Wl,-rpath-link,${LOCKSTEP_TORCH_ROOT}/nvidia/cu13/lib)
