# zeroshard_put_own_fmt_first(<folder>)
# torch's include folder holds headers of another fmt. The real ones come first, by a folder of their
# own: compilers ignore an order that is asked for /usr/include. Installed, for outside projects.
function(zeroshard_put_own_fmt_first folder)
  get_target_property(hint fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  find_path(ZEROSHARD_FMT_HEADERS fmt/core.h HINTS ${hint})
  mark_as_advanced(ZEROSHARD_FMT_HEADERS)
  file(MAKE_DIRECTORY "${folder}")
  file(CREATE_LINK "${ZEROSHARD_FMT_HEADERS}/fmt" "${folder}/fmt" SYMBOLIC)
  target_include_directories(zeroshard::torch BEFORE INTERFACE "${folder}")
endfunction()
