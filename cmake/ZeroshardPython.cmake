# The Python package: what an extension module links, and build/python, where the tests find it.
#
# Out: target zeroshard::torch_python (missing without torch, or without the interpreter's headers),
#      ZEROSHARD_PYTHON_REASON (why it is missing), ZEROSHARD_PYTHON_STAGE (the folder for PYTHONPATH)

set(ZEROSHARD_PYTHON_STAGE "${PROJECT_BINARY_DIR}/python")
set(ZEROSHARD_PYTHON_REASON "${ZeroshardTorch_REASON}")

if(ZeroshardTorch_FOUND)
  if(NOT SKBUILD)  # pip's interpreter is given; otherwise it is torch's
    set(Python_EXECUTABLE "${ZeroshardTorch_PYTHON}")
  endif()
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
  if(Python_Development.Module_FOUND)
    # torch brings pybind11's headers among its own.
    add_library(zeroshard::torch_python SHARED IMPORTED)
    set_target_properties(zeroshard::torch_python PROPERTIES
      IMPORTED_LOCATION "${ZeroshardTorch_ROOT}/lib/libtorch_python.so"
      INTERFACE_LINK_LIBRARIES "zeroshard::torch;Python::Module")
  else()
    set(ZEROSHARD_PYTHON_REASON
        "${Python_EXECUTABLE} is older than 3.10 or has no Python.h (Debian package python3-dev)")
    message(STATUS "ZeroShard: the Python package is not built: ${ZEROSHARD_PYTHON_REASON}")
  endif()
endif()

# zeroshard_python_package(<target>)
# <target>, a MODULE library, becomes build/python/zeroshard/_C.<abi>.so. Around it lie links to the
# entries of python/zeroshard, so that an edited .py file counts without a build, and _build_info.py,
# which can be asked before _C is loaded: against another torch, loading it fails with a mangled name.
function(zeroshard_python_package target)
  set(package "${ZEROSHARD_PYTHON_STAGE}/zeroshard")
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME _C SUFFIX ".${Python_SOABI}${CMAKE_SHARED_MODULE_SUFFIX}"
    LIBRARY_OUTPUT_DIRECTORY "${package}"
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)  # pybind11's own types are hidden
  # At every build (some milliseconds), so that a new or a removed file is noticed.
  add_custom_target(${target}_stage
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}/python/zeroshard" "-DSTAGE=${package}"
            -P "${PROJECT_SOURCE_DIR}/cmake/ZeroshardPythonStage.cmake"
    COMMENT "" VERBATIM)
  add_dependencies(${target} ${target}_stage)
  file(CONFIGURE OUTPUT "${package}/_build_info.py" @ONLY CONTENT [=[
"""What this build of ZeroShard is, and what it was built for. Written by CMake."""

version = "@PROJECT_VERSION@"
torch_version = "@ZeroshardTorch_VERSION@"
]=])
endfunction()
