# zeroshard_add_pytests(TOGETHER <area>... ALONE <name>...)
# Every test_*.py of the calling folder, run by pytest. Those named test_<area>_*.py of an area in
# TOGETHER are one ctest, `python.<area>`: to start ranks that import torch takes as long as a test.
# An area may be cut: `<name>=<beginning>|<beginning>` is of the files that begin so, and the area
# behind it of what is left.
# Every other file is one, `python.<name>`, and those named *_slow.py are labelled `slow`.
# Those named test_<area>_cuda_*.py need a GPU: they are one ctest, `python.cuda`, labelled `cuda`.
# ALONE names ctests that nothing may run beside.
#
# Where the package is built they fail without it; they are skipped (77) where this interpreter lacks
# what tools/requirements/python_tests.txt names, and where every test of theirs skips itself.

function(_zeroshard_pytest name label seconds alone)
  # They start two ranks, which wait for disk and for each other half of the time.
  set(processors 1)
  if(name IN_LIST alone)
    set(processors 2)
  endif()
  add_test(NAME python.${name} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMAND "${ZeroshardTorch_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/run_pytest.py" ${ARGN})
  set_tests_properties(python.${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77
    TIMEOUT ${seconds} PROCESSORS ${processors}
    ENVIRONMENT "ZEROSHARD_BUILD_DIR=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endfunction()

function(zeroshard_add_pytests)
  cmake_parse_arguments(arg "" "" "TOGETHER;ALONE" ${ARGN})
  file(GLOB scripts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/test_*.py")
  set(slow ${scripts})
  list(FILTER slow INCLUDE REGEX "_slow\\.py$")
  list(REMOVE_ITEM scripts ${slow})
  set(on_gpu ${scripts})
  list(FILTER on_gpu INCLUDE REGEX "/test_[a-z0-9]+_cuda_[a-z0-9_]+\\.py$")
  list(REMOVE_ITEM scripts ${on_gpu})
  if(on_gpu)
    _zeroshard_pytest(cuda cuda 900 "${arg_ALONE}" ${on_gpu})
  endif()
  foreach(area IN LISTS arg_TOGETHER)
    string(REGEX REPLACE "=.*" "" name "${area}")
    string(REGEX REPLACE ".*=" "" beginnings "${area}")
    set(of_area ${scripts})
    list(FILTER of_area INCLUDE REGEX "/test_(${beginnings})(_[a-z0-9_]+)?\\.py$")
    list(REMOVE_ITEM scripts ${of_area})
    _zeroshard_pytest(${name} python 900 "${arg_ALONE}" ${of_area})
  endforeach()
  foreach(script IN LISTS scripts slow)
    string(REGEX MATCH "test_([a-z0-9_]+)\\.py$" _ "${script}")
    set(name ${CMAKE_MATCH_1})
    if(name MATCHES "_slow$")
      _zeroshard_pytest(${name} slow 3600 ${name} ${script})
    else()
      _zeroshard_pytest(${name} python 900 "${arg_ALONE}" ${script})
    endif()
  endforeach()
endfunction()
