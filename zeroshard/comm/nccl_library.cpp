#include "zeroshard/comm/nccl_library.h"

#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

namespace zeroshard {
namespace {

constexpr int kOldest = 21400;  // the first that does not block where a peer is gone

struct Found {
  std::optional<NcclLibrary> library;
  std::string missing;
  int version = 0;
};

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// The name of the first function that is not there; null where all are.
const char* find_all(void* in, NcclLibrary& nccl) {
  const char* missing = nullptr;
  const auto require = [&](const char* name, auto*& function) {
    if (missing == nullptr && !find(in, name, function)) missing = name;
  };
  require("ncclGetVersion", nccl.get_version);
  require("ncclGetErrorString", nccl.get_error_string);
  require("ncclGetLastError", nccl.get_last_error);
  require("ncclGetUniqueId", nccl.get_unique_id);
  require("ncclCommInitRankConfig", nccl.comm_init_rank_config);
  require("ncclCommGetAsyncError", nccl.comm_get_async_error);
  require("ncclCommFinalize", nccl.comm_finalize);
  require("ncclCommDestroy", nccl.comm_destroy);
  require("ncclCommAbort", nccl.comm_abort);
  require("ncclGroupStart", nccl.group_start);
  require("ncclGroupEnd", nccl.group_end);
  require("ncclAllGather", nccl.all_gather);
  require("ncclReduceScatter", nccl.reduce_scatter);
  require("ncclBroadcast", nccl.broadcast);
  require("ncclSend", nccl.send);
  require("ncclRecv", nccl.recv);
  require("ncclRedOpCreatePreMulSum", nccl.red_op_create_pre_mul_sum);
  return missing;
}

// torch's CUDA half brings the library along, or LD_PRELOAD another one in its place: it is never
// opened a second time, since two of them would not know of each other.
Found find_library() {
  void* const loaded = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) return {.missing = "this process has not loaded NCCL (libnccl.so.2)"};
  NcclLibrary nccl;
  if (const char* const name = find_all(loaded, nccl)) {
    return {.missing = fmt::format("the NCCL that this process has loaded lacks {}", name)};
  }
  int version = 0;
  nccl.get_version(&version);
  if (version >= kOldest) return {.library = nccl, .version = version};
  return {.missing = fmt::format("NCCL is too old: version code {}, and 2.14 is needed", version)};
}

// Looked for again while there is none: torch's CUDA half may be loaded later. A copy, since
// another thread may be looking; what is found stays.
Found found() {
  static std::mutex mutex;
  static Found& last = *new Found;
  const std::lock_guard lock(mutex);
  if (!last.library) last = find_library();
  return last;
}

}  // namespace

std::string NcclLibrary::message_of(Result result, Comm comm) const {
  const char* const text = get_error_string(result);
  const char* const last = get_last_error(comm);
  const bool says_more = last != nullptr && *last != '\0';
  return fmt::format("{} (result {}{}{})", text == nullptr ? "unknown error" : text, result,
                     says_more ? ": " : "", says_more ? last : "");
}

const NcclLibrary* nccl_library() {
  const Found now = found();
  if (!now.library) return nullptr;
  static const NcclLibrary& library = *new NcclLibrary(*now.library);
  return &library;
}

std::string missing_nccl() { return found().missing; }

int nccl_version() { return found().version; }

}  // namespace zeroshard
