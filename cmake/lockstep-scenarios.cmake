# lockstep_discover_scenarios(path… [PREFIX text] [LABELS label…] [OPTIONS option…] [PROCESSORS n] [PROPERTIES name value…])
#
# Adds a test for each scenario file, and for each *.json and *.jsonc of a folder but lockstep.json. It runs `lockstep run`
# with OPTIONS. Its name is PREFIX (default "lockstep.") and the file's path below the source folder, without its ending.
#
# A scenario that is unsupported here is skipped (exit code 77). The test counts as PROCESSORS processors, by default as many
# as the largest "world_size" that the file itself writes, and runs no more ranks at once. PROPERTIES are those of CTest:
# TIMEOUT, RESOURCE_GROUPS.
function(lockstep_discover_scenarios)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "PREFIX;PROCESSORS" "LABELS;OPTIONS;PROPERTIES")
  if(NOT DEFINED ARG_PREFIX)
    set(ARG_PREFIX lockstep.)
  endif()
  foreach(path ${ARG_UNPARSED_ARGUMENTS})
    get_filename_component(path ${path} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
    set(files ${path})
    if(IS_DIRECTORY ${path})
      file(GLOB files CONFIGURE_DEPENDS ${path}/*.json ${path}/*.jsonc)
      list(FILTER files EXCLUDE REGEX "/lockstep\\.json$")
    endif()
    if(NOT files)
      message(SEND_ERROR "lockstep_discover_scenarios: there is no scenario in ${path}")
    endif()
    foreach(file ${files})
      _lockstep_add_scenario(${file})
    endforeach()
  endforeach()
endfunction()

# Takes the arguments of its caller.
function(_lockstep_add_scenario file)
  file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR} ${file})
  string(REGEX REPLACE "(\\.lockstep)?\\.jsonc?$" "" name ${name})
  set(name ${ARG_PREFIX}${name})
  set(processors ${ARG_PROCESSORS})
  if(NOT processors)
    _lockstep_ranks_of(${file} processors)
  endif()
  add_test(NAME ${name} COMMAND lockstep::lockstep run ${file} --jobs ${processors} ${ARG_OPTIONS})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 PROCESSORS ${processors} LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
endfunction()

# The largest "world_size" in the text of the file; 1 where it has none.
function(_lockstep_ranks_of file result)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(ranks 1)
  file(READ ${file} text)
  string(REGEX MATCHALL "\"world_size\"[ \t\r\n]*:[ \t\r\n]*[0-9]+" sizes "${text}")
  foreach(size ${sizes})
    string(REGEX REPLACE ".*[^0-9]" "" size ${size})
    if(size GREATER ranks)
      set(ranks ${size})
    endif()
  endforeach()
  set(${result} ${ranks} PARENT_SCOPE)
endfunction()
