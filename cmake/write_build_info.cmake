# Script: fills TEMPLATE into HEADER with the commit of SOURCE. See ZeroshardVersion.cmake.
set(COMMIT "none")
if(GIT)
  # --show-prefix is empty at the top of a repository: an unpacked archive inside some other
  # repository must not report that one's commit.
  execute_process(COMMAND "${GIT}" rev-parse --show-prefix WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND "${GIT}" rev-parse --short=12 HEAD WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE out RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND prefix STREQUAL "")
    set(COMMIT "${out}")
    execute_process(COMMAND "${GIT}" diff --quiet HEAD -- WORKING_DIRECTORY "${SOURCE}"
                    RESULT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND COMMIT "+dirty")
    endif()
  endif()
endif()
foreach(name VERSION TORCH TORCH_CUDA MPI CUDA)
  if("${${name}}" STREQUAL "")
    set(${name} "none")
  endif()
endforeach()
configure_file("${TEMPLATE}" "${HEADER}" @ONLY)  # leaves an equal file untouched
