#include "zeroshard/base/file_error.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace zeroshard {
namespace {

const char* remedy_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return "free some space or write to another disk";
    case EACCES:
    case EPERM:
    case EROFS: return "check the permissions or choose another folder";
    case EISDIR: return "this is a folder: name a file in it";
    case ENOTDIR:
    case EEXIST: return "a part of the path is a file: choose another path";
    case ENOENT: return "check that the path and its folder exist";
    case EFBIG: return "raise the limit on the size of files (ulimit -f)";
    case ENAMETOOLONG: return "choose a shorter name";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    default: return "check the path and the disk";
  }
}

}  // namespace

StorageError file_error(std::string_view what, const std::filesystem::path& path,
                        int error_number) {
  const std::string words = std::generic_category().message(error_number);
  return StorageError({.what = std::string(what),
                       .value = path.string() + " (" + words + ")",
                       .remedy = remedy_for(error_number)});
}

}  // namespace zeroshard
