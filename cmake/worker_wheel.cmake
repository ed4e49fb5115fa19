# The wheel lockstep-worker, unpacked: cmake --install build --component worker_wheel --prefix FOLDER; ci/release packs it.
#
# The program lies in site-packages beside torch/, whose LibTorch it takes; harness/app/worker_program.h finds it there. The
# command of its name, which pip puts beside lockstep, becomes the program.

set(info lockstep_worker-${PROJECT_VERSION}.dist-info)
string(REGEX REPLACE "[.][0-9]+$" ".*" torch_versions ${LOCKSTEP_TORCH_VERSION})
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${info}/METADATA @ONLY CONTENT [[
Metadata-Version: 2.4
Name: lockstep-worker
Version: @PROJECT_VERSION@
Summary: The trainings that are built into lockstep, over the LibTorch of torch
License-Expression: Apache-2.0
License-File: LICENSE
License-File: NOTICE
Requires-Python: >=3.10
Requires-Dist: lockstep==@PROJECT_VERSION@
Requires-Dist: torch==@torch_versions@
]])
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${info}/WHEEL CONTENT
  "Wheel-Version: 1.0\nGenerator: lockstep\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${info}/entry_points.txt CONTENT
  "[console_scripts]\nlockstep-worker = lockstep_worker:main\n")

set(of_wheel COMPONENT worker_wheel EXCLUDE_FROM_ALL)
install(DIRECTORY ${CMAKE_BINARY_DIR}/${info} DESTINATION . ${of_wheel})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION ${info}/licenses ${of_wheel})
install(FILES ${CMAKE_SOURCE_DIR}/python/lockstep_worker/__init__.py DESTINATION lockstep_worker ${of_wheel})
install(TARGETS lockstep-worker DESTINATION lockstep_worker ${of_wheel})
