# Writes OUTPUT where it changes: VERSION, and the commit of SOURCE where that is known. git knows it of a work tree; a source
# archive carries it in commit.txt, which `git archive` fills in.
cmake_policy(VERSION 3.25)
execute_process(COMMAND git --no-optional-locks -C ${SOURCE} rev-parse --show-prefix HEAD
  OUTPUT_VARIABLE said ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/commit.txt archived REGEX "^[0-9a-f]+$")
set(commit "")
if(said MATCHES "^\n([0-9a-f]+)$")  # no prefix: SOURCE is the work tree, not a folder of another one
  set(commit ${CMAKE_MATCH_1})
  execute_process(COMMAND git --no-optional-locks -C ${SOURCE} status --porcelain OUTPUT_VARIABLE changes ERROR_QUIET)
elseif(archived)
  set(commit ${archived})
  set(changes "")
endif()
set(version ${VERSION})
if(commit)
  string(SUBSTRING ${commit} 0 12 commit)
  string(APPEND version " (commit ${commit}")
  if(changes)
    string(APPEND version " with changes")
  endif()
  string(APPEND version ")")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#include \"harness/base/version.h\"

namespace lockstep {

const char* version() { return \"@version@\"; }

}  // namespace lockstep
")
