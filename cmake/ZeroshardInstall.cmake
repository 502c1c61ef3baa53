# The installed tree: headers, libraries, the program, and find_package(zeroshard).
# `make install` and `make uninstall` (tools/install.py) wrap this.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS zeroshard_core zeroshard_device zeroshard_numeric zeroshard_comm zeroshard_precision
        zeroshard_optim zeroshard_tier zeroshard_monitor zeroshard_engine_plan zeroshard_checkpoint
        zeroshard_checkpoint_save zeroshard_model_spec zeroshard_data EXPORT zeroshardTargets)
if(TARGET zeroshard_engine)  # apart, so that a user without torch has all the others
  install(TARGETS zeroshard_torch_device zeroshard_torch_comm zeroshard_engine
          zeroshard_setup zeroshard_models zeroshard_trainer zeroshard_all EXPORT zeroshardTorchTargets)
endif()
install(TARGETS zeroshard_cli)
if(TARGET zeroshard_train)  # not for people's PATH: `zeroshard train` starts it
  set_target_properties(zeroshard_train PROPERTIES INSTALL_RPATH "${ZeroshardTorch_ROOT}/lib")
  install(TARGETS zeroshard_train RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/zeroshard")
endif()

# File by file: install(DIRECTORY) would leave empty folders behind.
file(GLOB_RECURSE _zi_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
     "${PROJECT_SOURCE_DIR}/zeroshard/*.h")
foreach(header IN LISTS _zi_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()

set(_zi_package "${CMAKE_INSTALL_LIBDIR}/cmake/zeroshard")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/zeroshardConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/generated/zeroshardConfig.cmake" INSTALL_DESTINATION "${_zi_package}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/generated/zeroshardConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/zeroshardConfig.cmake"
              "${PROJECT_BINARY_DIR}/generated/zeroshardConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindZeroshardTorch.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/ZeroshardOwnFmt.cmake"
              "${PROJECT_SOURCE_DIR}/tools/find_torch.py"
        DESTINATION "${_zi_package}")
if(fmt_FOUND)  # headers-only fmt (ZEROSHARD_EXTRA_PREFIX) is no package that others could find
  install(EXPORT zeroshardTargets NAMESPACE zeroshard:: DESTINATION "${_zi_package}")
  if(TARGET zeroshard_engine)
    install(EXPORT zeroshardTorchTargets NAMESPACE zeroshard:: DESTINATION "${_zi_package}")
  endif()
endif()
