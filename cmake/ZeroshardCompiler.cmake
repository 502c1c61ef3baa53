# Flags, launchers and sanitizers, all on one interface target that our own targets link.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(zeroshard_flags INTERFACE)
# Designated initializers leave members at their defaults on purpose; GCC warns about each.
# No contraction: every build, on every CPU, does the same IEEE operations.
target_compile_options(zeroshard_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers $<$<BOOL:${ZEROSHARD_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about overlapping copies inside std::string's own operator+ (GCC bug 105651).
  target_compile_options(zeroshard_flags INTERFACE -Wno-restrict)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # GCC 13 sees writes past the end of a std::vector<bool> that is copied (GCC bug 110498).
  target_compile_options(zeroshard_flags INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()

find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  target_link_options(zeroshard_flags INTERFACE -fuse-ld=mold)
endif()

# On every target, third parties' sources included: a sanitizer sees only what it instrumented.
if(ZEROSHARD_SANITIZE)
  add_compile_options(-fsanitize=${ZEROSHARD_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ZEROSHARD_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options("-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitize_ignore.txt")
  endif()
endif()
