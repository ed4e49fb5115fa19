# The wheel (pyproject.toml) brings all that a machine with Python may lack: the C library and libgcc_s are the machine's own.

if(SKBUILD)
  set(OPENSSL_USE_STATIC_LIBS ON)
  # libgcc.a needs glibc 2.35, and parts of libstdc++.a that nothing calls need 2.36; all else needs 2.34 at most.
  add_link_options(-static-libstdc++ -Wl,--gc-sections)
endif()

# The program, and the Python package twice: where Python finds it, and in the folder that the program puts on PYTHONPATH.
# That is not site-packages, for the command may run another Python.
function(install_wheel)
  if(NOT SKBUILD)
    return()
  endif()
  set(share ${SKBUILD_DATA_DIR}/share/lockstep)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/lockstep ${CMAKE_SOURCE_DIR}/python/_lockstep_autoload
    DESTINATION ${share}/python COMPONENT wheel
    FILES_MATCHING PATTERN *.py PATTERN *.jsonc PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/python/lockstep-${PROJECT_VERSION}.egg-info DESTINATION ${share}/python
    COMPONENT wheel)
  install(FILES harness/scenario/scenario.schema.json DESTINATION ${share} COMPONENT wheel)
  install(FILES harness/trace/format.md RENAME trace-format.md DESTINATION ${share} COMPONENT wheel)

  # Debian's libxxhash.a lacks the functions that choose by the processor.
  find_library(xxhash_library xxhash REQUIRED)
  file(REAL_PATH ${xxhash_library} xxhash)
  set_target_properties(lockstep_recorder PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH $ORIGIN)
  target_link_options(lockstep_recorder PRIVATE -s)  # files, unlike targets, are not stripped when they are installed
  foreach(package lockstep ${share}/python/lockstep)
    install(FILES $<TARGET_FILE:lockstep_recorder> DESTINATION ${package} RENAME liblockstep_recorder.so.1 COMPONENT wheel)
    install(FILES ${xxhash} DESTINATION ${package} RENAME libxxhash.so.0 COMPONENT wheel)
  endforeach()
  set_target_properties(lockstep PROPERTIES INSTALL_RPATH $ORIGIN/../share/lockstep/python/lockstep)
  install(TARGETS lockstep DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT wheel)
endfunction()
