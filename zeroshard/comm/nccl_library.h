// The few functions of NVIDIA's NCCL that we call, found at run time in the library that torch has
// loaded: there is no NCCL header, and programs start where there is no NCCL.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>

namespace zeroshard {

// Members are named as the library's functions are, without their `nccl`. Handles are opaque, and
// streams are the driver's.
struct NcclLibrary {
  using Result = int;
  static constexpr Result kSuccess = 0, kRemoteError = 6, kInProgress = 7;
  using Comm = void*;
  using Stream = void*;

  // Numbers of ncclDataType_t and ncclRedOp_t.
  enum Type : int { kBytes = 1, kFp16 = 6, kFp32 = 7, kBf16 = 9 };
  using Sum = int;
  static constexpr Sum kPlainSum = 0;
  static constexpr int kScalarOnHost = 1;

  struct Id {
    std::array<char, 128> bytes = {};
  };
  // The first members of ncclConfig_t, as they have been since 2.14: the library reads `size` bytes
  // of it and takes its defaults for what comes behind.
  struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xCAFEBEEF;
    unsigned version = 21400;
    int blocking = 0;
    int cluster_size = std::numeric_limits<int>::min();  // not set
  };

  Result (*get_version)(int*) = nullptr;
  const char* (*get_error_string)(Result) = nullptr;
  const char* (*get_last_error)(Comm) = nullptr;
  Result (*get_unique_id)(Id*) = nullptr;
  Result (*comm_init_rank_config)(Comm*, int ranks, Id, int rank, Config*) = nullptr;
  Result (*comm_get_async_error)(Comm, Result*) = nullptr;
  Result (*comm_finalize)(Comm) = nullptr;
  Result (*comm_destroy)(Comm) = nullptr;
  Result (*comm_abort)(Comm) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*all_gather)(const void* in, void* out, std::size_t count, int type, Comm,
                       Stream) = nullptr;
  Result (*reduce_scatter)(const void* in, void* out, std::size_t count, int type, Sum, Comm,
                           Stream) = nullptr;
  Result (*broadcast)(const void* in, void* out, std::size_t count, int type, int root, Comm,
                      Stream) = nullptr;
  Result (*send)(const void* in, std::size_t count, int type, int to, Comm, Stream) = nullptr;
  Result (*recv)(void* out, std::size_t count, int type, int from, Comm, Stream) = nullptr;
  Result (*red_op_create_pre_mul_sum)(Sum*, void* factor, int type, int residence, Comm) = nullptr;

  // "unhandled cuda error (result 1: ncclCommInitRank failed)"
  std::string message_of(Result result, Comm comm) const;
};

// The library that this process has loaded; null where it has none, or an older one than 2.14.
const NcclLibrary* nccl_library();

// Why there is none: "" where there is one.
std::string missing_nccl();

// As in 2.30.7: 23007; 0 where there is none.
int nccl_version();

}  // namespace zeroshard
