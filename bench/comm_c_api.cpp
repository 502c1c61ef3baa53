// The mpi backend for ctypes (bench/comm_libraries.py). Every function blocks until the operation
// is done and returns 0, or 1 with the reason in zs_bench_error().
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "zeroshard/comm/mpi.h"

namespace {

using zeroshard::Communicator;
using zeroshard::ConstPiece;
using zeroshard::DType;
using zeroshard::Piece;

// One per process, as the backend wants it; Python calls from one thread.
std::unique_ptr<Communicator> communicator;
std::string error;

// No exception may leave for Python.
template <typename Work>
int reported(const Work& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& caught) {
    error = caught.what();
    return 1;
  }
}

// Python's numbers for them are their places in this list.
DType dtype_of(int number) {
  constexpr std::array kDTypes = {DType::fp32, DType::bf16, DType::fp16};
  return kDTypes.at(static_cast<std::size_t>(number));
}

}  // namespace

extern "C" {

const char* zs_bench_error() { return error.c_str(); }

// chunk_bytes 0: the backend's own choice.
int zs_bench_open(std::int64_t chunk_bytes) {
  return reported([&] {
    zeroshard::MpiTuning tuning;
    if (chunk_bytes > 0) tuning.chunk_bytes = chunk_bytes;
    communicator = zeroshard::make_mpi_communicator({.timeout = std::chrono::minutes(1)}, tuning);
  });
}

int zs_bench_close() {
  return reported([] { communicator.reset(); });
}

int zs_bench_rank() { return communicator->rank(); }
int zs_bench_world_size() { return communicator->world_size(); }

// `count` elements from every rank.
int zs_bench_all_gather(const void* in, void* out, std::int64_t count, int dtype_number) {
  return reported([&] {
    const DType dtype = dtype_of(dtype_number);
    const ConstPiece from{in, count, dtype};
    const Piece to{out, count * communicator->world_size(), dtype};
    communicator->all_gather_into({{from, to}}, "bench").wait();
  });
}

// `count` elements to every rank.
int zs_bench_reduce_scatter(const void* in, void* out, std::int64_t count, int dtype_number) {
  return reported([&] {
    const DType dtype = dtype_of(dtype_number);
    const ConstPiece from{in, count * communicator->world_size(), dtype};
    const Piece to{out, count, dtype};
    communicator->reduce_scatter_into({{from, to}}, {}, "bench").wait();
  });
}

int zs_bench_all_reduce(void* data, std::int64_t count) {
  return reported([&] {
    const Piece piece{data, count, DType::fp32};
    communicator->all_reduce(piece, zeroshard::ReduceOp::sum, "bench").wait();
  });
}

int zs_bench_broadcast(void* data, std::int64_t count, int root) {
  return reported([&] {
    communicator->broadcast({data, count, DType::int32}, root, "bench").wait();
  });
}

int zs_bench_barrier() {
  return reported([] { communicator->barrier("bench").wait(); });
}

}  // extern "C"
