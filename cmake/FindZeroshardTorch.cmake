# Finds the libtorch inside a Python's torch package, by path and without importing it.
#
# torch's own TorchConfig.cmake stops where no CUDA toolkit is installed, though compiling against
# torch_cpu and c10 needs none; this module looks at files only. It is installed, too.
#
# In:  ZEROSHARD_TORCH_PYTHON        the interpreter; default: .venv's, else python3
# Out: ZeroshardTorch_FOUND, ZeroshardTorch_VERSION ("2.11.0+cu130"),
#      ZeroshardTorch_CUDA (CUDA that torch was built for, "none" for a CPU build),
#      ZeroshardTorch_ROOT (the package's folder), ZeroshardTorch_PYTHON (the interpreter),
#      ZeroshardTorch_REASON (why not), target zeroshard::torch

set(_zt_python "${ZEROSHARD_TORCH_PYTHON}")
if(NOT _zt_python AND SKBUILD)
  set(_zt_python "${Python_EXECUTABLE}")  # the one that runs pip
endif()
if(NOT _zt_python)
  find_program(_zt_python_found NAMES python python3 NO_CACHE NO_DEFAULT_PATH
               PATHS "${CMAKE_CURRENT_LIST_DIR}/../.venv/bin")
  if(NOT _zt_python_found)
    find_program(_zt_python_found NAMES python3 NO_CACHE)
  endif()
  set(_zt_python "${_zt_python_found}")
endif()

find_file(_zt_script find_torch.py NO_CACHE REQUIRED NO_DEFAULT_PATH  # tools/, or installed
          PATHS "${CMAKE_CURRENT_LIST_DIR}" "${CMAKE_CURRENT_LIST_DIR}/../tools")

set(ZeroshardTorch_PYTHON "${_zt_python}")
set(ZeroshardTorch_ROOT "")
set(ZeroshardTorch_VERSION "")
set(ZeroshardTorch_CUDA "none")
if(_zt_python)
  # Three lines on success: folder, version, CUDA. One sentence on stderr otherwise. A second try
  # without PYTHONPATH: by it, pip's isolated builds hide the environment's packages.
  foreach(_zt_option IN ITEMS "" "-E")
    execute_process(
      COMMAND "${_zt_python}" ${_zt_option} "${_zt_script}"
      OUTPUT_VARIABLE _zt_out ERROR_VARIABLE ZeroshardTorch_REASON RESULT_VARIABLE _zt_result
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(_zt_result EQUAL 0)
      break()
    endif()
  endforeach()
  if(_zt_result EQUAL 0)
    string(REPLACE "\n" ";" _zt_out "${_zt_out}")
    list(GET _zt_out 0 ZeroshardTorch_ROOT)
    list(GET _zt_out 1 ZeroshardTorch_VERSION)
    list(GET _zt_out 2 ZeroshardTorch_CUDA)
  endif()
else()
  set(ZeroshardTorch_REASON "no python3 on the PATH")
endif()

string(REGEX REPLACE "\\+.*" "" _zt_version "${ZeroshardTorch_VERSION}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZeroshardTorch
  REQUIRED_VARS ZeroshardTorch_ROOT
  VERSION_VAR _zt_version
  REASON_FAILURE_MESSAGE  # no semicolon in it: CMake would take it for a list
    "${ZeroshardTorch_REASON}. Run 'make setup', or set ZEROSHARD_TORCH_PYTHON to a Python that has torch.")

if(ZeroshardTorch_FOUND AND NOT TARGET zeroshard::torch)
  foreach(_zt_lib torch_cpu c10)
    add_library(zeroshard::${_zt_lib} SHARED IMPORTED)
    set_target_properties(zeroshard::${_zt_lib} PROPERTIES
      IMPORTED_LOCATION "${ZeroshardTorch_ROOT}/lib/lib${_zt_lib}.so")
  endforeach()
  # Imported targets' headers are SYSTEM: torch's warnings are not ours. The folder of an imported
  # library becomes part of our programs' RPATH, so they start without LD_LIBRARY_PATH.
  add_library(zeroshard::torch INTERFACE IMPORTED)
  set_target_properties(zeroshard::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES
      "${ZeroshardTorch_ROOT}/include;${ZeroshardTorch_ROOT}/include/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "zeroshard::torch_cpu;zeroshard::c10")
endif()
