# zeroshard_add_tests(<area> [LABEL <label>] [LIBRARIES <target>...])
# One GoogleTest binary from every test_*.cpp of the calling folder, so no file can be left out.
# Files named test_*_slow.cpp become a second binary labelled `slow`.
#
# Target `zeroshard_unit_tests` builds all that is labelled `unit`: the torch-free tests, which the
# sanitizer builds run.

find_package(GTest REQUIRED)
include(GoogleTest)
add_custom_target(zeroshard_unit_tests)

# A third less to compile than with all optimisations, and tests run as long.
function(zeroshard_compile_tests_fast name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# torch's headers are most of the compile time of a file: read once for all tests and their helpers.
function(zeroshard_precompile_torch name)
  zeroshard_compile_tests_fast(${name})
  if(NOT TARGET zeroshard_torch_headers)
    return()
  endif()
  target_precompile_headers(${name} REUSE_FROM zeroshard_torch_headers)
  target_link_libraries(${name} PRIVATE GTest::gtest)  # among those headers, with its macros
  # With these, to join files gains little; and one file's helper may be taken for another's.
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_compile_options(${name} PRIVATE
    -fPIE  # as the executable that the headers were compiled for
    # Precompiled, the standard library's headers are no system headers to GCC 12's false alarms.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
endfunction()

function(_zeroshard_test_binary name label libraries)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE zeroshard::core zeroshard_flags ${libraries}
                        GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE
    ZEROSHARD_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    ZEROSHARD_BINARY="$<TARGET_FILE:zeroshard_cli>")
  add_dependencies(${name} zeroshard_cli)
  if(label STREQUAL "unit")
    add_dependencies(zeroshard_unit_tests ${name})
  endif()
  # Names by number, not by parameter: a printed parameter may hold an address, new in each run.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
                       PROPERTIES LABELS "${label}" TIMEOUT 300)
endfunction()

function(zeroshard_add_tests area)
  cmake_parse_arguments(arg "" "LABEL" "LIBRARIES" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/test_*.cpp")
  set(slow ${sources})
  list(FILTER slow INCLUDE REGEX "_slow\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_slow\\.cpp$")
  _zeroshard_test_binary(test_${area} ${arg_LABEL} "${arg_LIBRARIES}" ${sources})
  set(binaries test_${area})
  if(slow)
    _zeroshard_test_binary(test_${area}_slow slow "${arg_LIBRARIES}" ${slow})
    list(APPEND binaries test_${area}_slow)
  endif()
  foreach(name IN LISTS binaries)
    if(arg_LABEL STREQUAL "torch")
      zeroshard_precompile_torch(${name})
    else()
      zeroshard_compile_tests_fast(${name})
    endif()
  endforeach()
endfunction()
