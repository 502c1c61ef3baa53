# What we build on. Packages come from the system; a machine without them (and without a network)
# passes a folder in ZEROSHARD_EXTRA_PREFIX, which tools/pack_dependencies.sh fills.

if(ZEROSHARD_EXTRA_PREFIX)
  list(PREPEND CMAKE_PREFIX_PATH "${ZEROSHARD_EXTRA_PREFIX}")
endif()

find_package(Threads REQUIRED)

# zeroshard::<name> from the folder that holds <header>.
function(_zeroshard_header_only name header package)
  find_path(ZEROSHARD_${name}_INCLUDE_DIR ${header})
  mark_as_advanced(ZEROSHARD_${name}_INCLUDE_DIR)
  if(NOT ZEROSHARD_${name}_INCLUDE_DIR)
    message(FATAL_ERROR "${header} not found: run 'make setup' (Debian package ${package}), "
                        "or set ZEROSHARD_EXTRA_PREFIX to a folder with include/${header}")
  endif()
  add_library(zeroshard_${name} INTERFACE)
  add_library(zeroshard::${name} ALIAS zeroshard_${name})
  target_include_directories(zeroshard_${name} SYSTEM INTERFACE "${ZEROSHARD_${name}_INCLUDE_DIR}")
endfunction()

_zeroshard_header_only(rapidjson rapidjson/reader.h rapidjson-dev)
_zeroshard_header_only(cli11 CLI/CLI.hpp libcli11-dev)
_zeroshard_header_only(xxhash xxhash.h libxxhash-dev)

if(NOT ZEROSHARD_PORTABLE)
  find_package(fmt 9 QUIET)
endif()
if(NOT fmt_FOUND)
  # Headers alone serve as well; only an installed ZeroShard needs the real package.
  _zeroshard_header_only(fmt fmt/core.h libfmt-dev)
  target_compile_definitions(zeroshard_fmt INTERFACE FMT_HEADER_ONLY=1)
  add_library(fmt::fmt ALIAS zeroshard_fmt)
endif()

if(ZEROSHARD_WITH_TORCH)
  find_package(ZeroshardTorch)
  if(ZeroshardTorch_FOUND)
    include(ZeroshardOwnFmt)
    zeroshard_put_own_fmt_first("${PROJECT_BINARY_DIR}/generated/fmt")
  endif()
  if(NOT ZEROSHARD_PORTABLE)
    set(MPI_CXX_SKIP_MPICXX ON)  # the plain C interface: the C++ one was removed from the standard
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  find_package(CUDAToolkit QUIET)
endif()
