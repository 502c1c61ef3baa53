# One libFuzzer program per tests/fuzz/fuzz_*.cpp, with ASan and UBSan; preset `fuzz`, `make fuzz`.
# tests/fuzz/<name>/ holds a target's seeds and tests/fuzz/<name>.dict its words, where they exist.
# The ctests that run these programs are in tests/gates: the release build knows where they lie.

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "the fuzz targets need clang++ (Debian packages clang and libclang-rt-14-dev);"
                      " configure with: cmake --preset fuzz")
endif()
# The library is instrumented too, or the fuzzer is blind in the code it is meant to explore.
foreach(library zeroshard_core zeroshard_checkpoint)
  target_compile_options(${library} PRIVATE -fsanitize=fuzzer-no-link)
endforeach()

file(GLOB _zf_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.cpp")
add_custom_target(zeroshard_fuzz)
foreach(source IN LISTS _zf_sources)
  cmake_path(GET source STEM name)
  add_executable(${name} "${source}")
  target_link_libraries(${name} PRIVATE zeroshard::core zeroshard::checkpoint zeroshard_flags)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(zeroshard_fuzz ${name})
endforeach()
