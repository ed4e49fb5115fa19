# liblockstep_recorder.so: base/, trace/ and record/ behind the C functions of lockstep/recorder.h, to be installed.
#
# Compiled once more, as a shared library has to be; nothing else of it can be seen or bent from outside.

set(recorder_abi 1)  # LOCKSTEP_RECORDER_ABI of the header
file(GLOB sources CONFIGURE_DEPENDS base/*.cpp trace/*.cpp record/*.cpp)
add_library(lockstep_recorder SHARED ${sources})
add_library(lockstep::recorder ALIAS lockstep_recorder)
set_target_properties(lockstep_recorder PROPERTIES
  EXPORT_NAME recorder
  VERSION ${recorder_abi}.0.0
  SOVERSION ${recorder_abi}
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/record/exports.map)
target_include_directories(lockstep_recorder PRIVATE ${CMAKE_SOURCE_DIR} INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/record/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(lockstep_recorder PRIVATE
  $<BUILD_INTERFACE:OpenSSL::Crypto> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> $<BUILD_INTERFACE:Threads::Threads> xxhash)
# Hidden visibility leaves what templates of the standard library become.
target_link_options(lockstep_recorder PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/record/exports.map)
target_precompile_headers(lockstep_recorder PRIVATE base/precompiled.h)
compile_together(lockstep_recorder 16)

install(TARGETS lockstep_recorder EXPORT lockstep)
install(FILES record/include/lockstep/recorder.h record/include/lockstep/torch.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep)

# find_package(lockstep) gives lockstep::recorder, lockstep::lockstep and lockstep_discover_scenarios; pkg-config knows the
# recorder as lockstep-recorder.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake DESTINATION ${package})
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/lockstep-config.cmake @ONLY CONTENT [[
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-scenarios.cmake)
]])
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstep-config.cmake ${CMAKE_BINARY_DIR}/lockstep-config-version.cmake
  ${CMAKE_SOURCE_DIR}/cmake/lockstep-scenarios.cmake DESTINATION ${package})
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/lockstep-recorder.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: lockstep-recorder
Description: Records the trace of one rank of a training
Version: @PROJECT_VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -llockstep_recorder
]])
install(FILES ${CMAKE_BINARY_DIR}/lockstep-recorder.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
