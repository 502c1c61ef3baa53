# zeroshard_add_tests(<area> [LABEL <label>] [LIBRARIES <target>...])
# One GoogleTest binary from every test_*.cpp of the calling folder, so no file can be left out.
# Files named test_*_slow.cpp become a second binary labelled `slow`.
#
# Target `zeroshard_unit_tests` builds all that is labelled `unit`: the torch-free tests, which the
# sanitizer builds run.

find_package(GTest REQUIRED)
include(GoogleTest)
add_custom_target(zeroshard_unit_tests)

function(_zeroshard_test_binary name label libraries)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE zeroshard::core zeroshard_flags ${libraries}
                        GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE
    ZEROSHARD_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    ZEROSHARD_BINARY="$<TARGET_FILE:zeroshard_cli>")
  add_dependencies(${name} zeroshard_cli)
  if(label STREQUAL "torch" AND TARGET zeroshard_torch_headers)
    target_precompile_headers(${name} REUSE_FROM zeroshard_torch_headers)
    # With these, to join files gains little; and one file's helper may be taken for another's.
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
    # Precompiled, the standard library's headers are no system headers to GCC 12's false alarms.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
  endif()
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
  if(slow)
    _zeroshard_test_binary(test_${area}_slow slow "${arg_LIBRARIES}" ${slow})
  endif()
endfunction()
