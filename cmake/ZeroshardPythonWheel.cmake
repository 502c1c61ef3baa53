# What `pip install .` (scikit-build-core, pyproject.toml) takes from this build. The .py files come
# from python/zeroshard without CMake's help.
if(NOT TARGET zeroshard_python)
  message(FATAL_ERROR
    "The Python package is built for the torch of the environment that it goes into: "
    "${ZEROSHARD_PYTHON_REASON}. Install torch there first. A tool that builds in an environment of "
    "its own (uv, build) cannot see it: use 'pip install .', or that tool's --no-build-isolation.")
endif()

message(STATUS "ZeroShard: compiling the Python package for torch ${ZeroshardTorch_VERSION}: about four "
               "minutes on two idle cores, a second time only what has changed")
install(TARGETS zeroshard_python LIBRARY DESTINATION zeroshard)
install(FILES "${ZEROSHARD_PYTHON_STAGE}/zeroshard/_build_info.py" DESTINATION zeroshard)

# The commands; `zeroshard` looks for `zeroshard-train` beside itself. That one finds torch from
# bin/, wherever the environment is moved to, else where torch was when it was built here.
execute_process(
  COMMAND "${ZeroshardTorch_PYTHON}" -c
    "import os, sysconfig as s; print(os.path.relpath(s.get_path('platlib'), s.get_path('scripts')))"
  OUTPUT_VARIABLE _zw_packages OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(_zw_torch "$ORIGIN/${_zw_packages}/torch/lib")
if(NOT ZEROSHARD_PORTABLE)
  list(APPEND _zw_torch "${ZeroshardTorch_ROOT}/lib")
endif()
set_target_properties(zeroshard_train PROPERTIES INSTALL_RPATH "${_zw_torch}")
install(TARGETS zeroshard_cli zeroshard_train RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
