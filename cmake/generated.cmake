# Files made from other files: the dispatch over every "kind" and the embedded schema from the schema, the build id from
# all sources, the commit from git.

set(LOCKSTEP_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(schema_file ${CMAKE_SOURCE_DIR}/harness/scenario/scenario.schema.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schema_file})
file(READ ${schema_file} schema)

# generated/kinds/<definition>.inc: one line LOCKSTEP_KIND(name) for each branch of the definition.
function(generate_kinds definition branches key)
  string(JSON count LENGTH "${schema}" definitions ${definition} ${branches})
  math(EXPR last "${count} - 1")
  set(lines "")
  foreach(i RANGE ${last})
    string(JSON kind GET "${schema}" definitions ${definition} ${branches} ${i} properties ${key} const)
    string(APPEND lines "LOCKSTEP_KIND(${kind})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${LOCKSTEP_GENERATED}/kinds/${definition}.inc CONTENT "${lines}" @ONLY)
endfunction()
# generated/kinds/<name>.inc from the values of an enum at a place in the schema.
function(generate_names name)
  string(JSON count LENGTH "${schema}" ${ARGN} enum)
  math(EXPR last "${count} - 1")
  set(lines "")
  foreach(i RANGE ${last})
    string(JSON value GET "${schema}" ${ARGN} enum ${i})
    string(APPEND lines "LOCKSTEP_KIND(${value})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${LOCKSTEP_GENERATED}/kinds/${name}.inc CONTENT "${lines}" @ONLY)
endfunction()
# generated/kinds/recipe.inc: an enum for each closed list of a recipe.
set(SCHEMA ${schema_file})
set(OUTPUT ${LOCKSTEP_GENERATED}/kinds/recipe.inc)
include(${CMAKE_CURRENT_LIST_DIR}/recipe_kinds.cmake)

foreach(definition model data sampler optimizer schedule)
  generate_kinds(${definition} anyOf kind)
endforeach()
generate_kinds(fault oneOf kind)
generate_kinds(check oneOf that)
generate_names(device definitions train properties device)
generate_names(reduction definitions ddp properties reduction)

file(CONFIGURE OUTPUT ${LOCKSTEP_GENERATED}/schema_text.inc CONTENT "R\"schema(@schema@)schema\"\n" @ONLY)

# generated/build_id.cpp: both programs carry the hash of all sources, so that a worker of another build is noticed.
function(generate_build_id target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/*)
  add_custom_command(
    OUTPUT ${LOCKSTEP_GENERATED}/build_id.cpp
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${LOCKSTEP_GENERATED}/build_id.cpp
            -P ${CMAKE_SOURCE_DIR}/cmake/build_id.cmake
    DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/cmake/build_id.cmake
    COMMENT "Hashing the sources")
  target_sources(${target} PRIVATE ${LOCKSTEP_GENERATED}/build_id.cpp)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  get_directory_property(options COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX "^-(W|fmacro-prefix-map)")
  list(JOIN options " " options)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}" options)
  set_property(SOURCE ${LOCKSTEP_GENERATED}/build_id.cpp PROPERTY COMPILE_DEFINITIONS "LOCKSTEP_BUILD_FLAGS=\"${options}\"")
endfunction()

# generated/version.cpp, in lockstep_version: only the programs carry the commit, so that another one compiles little.
function(generate_version)
  set(file ${LOCKSTEP_GENERATED}/version.cpp)
  add_custom_target(lockstep_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${file} -DVERSION=${PROJECT_VERSION}
            -P ${CMAKE_SOURCE_DIR}/cmake/version.cmake
    BYPRODUCTS ${file}
    COMMENT "Reading the commit")
  add_library(lockstep_version OBJECT ${file})
  target_include_directories(lockstep_version PRIVATE ${CMAKE_SOURCE_DIR})
  add_dependencies(lockstep_version lockstep_commit)
endfunction()
