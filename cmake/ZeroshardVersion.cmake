# cli/build_info.h, generated: our version, the commit, and the torch, MPI and CUDA found here.
# Link `zeroshard_build_info` to include it. Keep that to one small source: the header is written
# again (only if it differs) whenever the commit moves.

set(ZEROSHARD_FOUND_TORCH "none")
if(ZeroshardTorch_FOUND)
  set(ZEROSHARD_FOUND_TORCH "${ZeroshardTorch_VERSION}")
endif()

# FindMPI reports the standard's version; which library it is stands in mpi.h.
set(ZEROSHARD_FOUND_MPI "none")
if(MPI_CXX_FOUND)
  set(ZEROSHARD_FOUND_MPI "MPI ${MPI_CXX_VERSION}")
  find_file(_zv_mpi_h mpi.h PATHS ${MPI_CXX_INCLUDE_DIRS} NO_DEFAULT_PATH NO_CACHE)
  if(_zv_mpi_h)
    file(STRINGS "${_zv_mpi_h}" _zv_lines
         REGEX "define +(OMPI_(MAJOR|MINOR|RELEASE)_VERSION|MPICH_VERSION) ")
    if(_zv_lines MATCHES "MAJOR_VERSION +([0-9]+).*MINOR_VERSION +([0-9]+).*RELEASE_VERSION +([0-9]+)")
      set(ZEROSHARD_FOUND_MPI "Open MPI ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
    elseif(_zv_lines MATCHES "MPICH_VERSION +\"([^\"]+)\"")
      set(ZEROSHARD_FOUND_MPI "MPICH ${CMAKE_MATCH_1}")
    endif()
  endif()
endif()

set(ZEROSHARD_FOUND_CUDA "none")
if(CUDAToolkit_FOUND)
  set(ZEROSHARD_FOUND_CUDA "${CUDAToolkit_VERSION}")
endif()

set(_zv_header "${PROJECT_BINARY_DIR}/generated/cli/build_info.h")
find_package(Git QUIET)
# Runs at every build (some milliseconds): a file to depend on that always changes with HEAD does
# not exist (worktrees, packed refs, no reflog). BYPRODUCTS lets ninja see an unchanged header.
set(_zv_command "${CMAKE_COMMAND}"
  "-DHEADER=${_zv_header}" "-DTEMPLATE=${PROJECT_SOURCE_DIR}/cmake/build_info.h.in"
  "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DGIT=${GIT_EXECUTABLE}" "-DVERSION=${PROJECT_VERSION}"
  "-DTORCH=${ZEROSHARD_FOUND_TORCH}" "-DTORCH_CUDA=${ZeroshardTorch_CUDA}"
  "-DMPI=${ZEROSHARD_FOUND_MPI}" "-DCUDA=${ZEROSHARD_FOUND_CUDA}"
  -P "${PROJECT_SOURCE_DIR}/cmake/write_build_info.cmake")
add_custom_target(zeroshard_write_build_info COMMAND ${_zv_command} BYPRODUCTS "${_zv_header}"
                  COMMENT "" VERBATIM)
execute_process(COMMAND ${_zv_command})  # so that editors and clang-tidy see it before a build

add_library(zeroshard_build_info INTERFACE)
target_include_directories(zeroshard_build_info INTERFACE "${PROJECT_BINARY_DIR}/generated")
add_dependencies(zeroshard_build_info zeroshard_write_build_info)

message(STATUS "ZeroShard ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, torch ${ZEROSHARD_FOUND_TORCH}, "
               "MPI ${ZEROSHARD_FOUND_MPI}, CUDA toolkit ${ZEROSHARD_FOUND_CUDA}")
