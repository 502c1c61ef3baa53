#include "zeroshard/comm/communicator.h"

#include <bit>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/fnv1a.h"

namespace zeroshard {
namespace {

void add_shape(Fnv1a& hash, const ConstPiece& piece) {
  hash.add(static_cast<std::uint64_t>(piece.count)).add(static_cast<std::uint64_t>(piece.dtype));
}

bool is_float(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

void check_memory(const ConstPiece& piece) {
  ZS_CHECK_GE(piece.count, 0, "elements of a message");
  ZS_CHECK(piece.count == 0 || piece.data != nullptr, "a message without memory");
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::all_gather: return "all_gather";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::all_reduce: return "all_reduce";
    case Operation::broadcast: return "broadcast";
    case Operation::barrier: return "barrier";
  }
  return "?";
}

std::string describe(const OperationTag& tag) {
  return fmt::format("{} \"{}\" (operation {})", name_of(tag.operation), tag.label, tag.sequence);
}

std::int64_t bytes_sent(const std::vector<GatherPair>& pairs, int world_size) {
  std::int64_t bytes = 0;
  for (const GatherPair& pair : pairs) bytes += pair.in.bytes() * (world_size - 1);
  return bytes;
}

std::int64_t bytes_sent(const std::vector<ReducePair>& pairs, int world_size) {
  std::int64_t bytes = 0;
  for (const ReducePair& pair : pairs) {
    bytes += pair.out.count * bytes_of(pair.in.dtype) * (world_size - 1);
  }
  return bytes;
}

void check_arguments(const std::vector<GatherPair>& pairs, int world_size) {
  for (const GatherPair& pair : pairs) {
    check_memory(pair.in);
    check_memory(pair.out.read());
    ZS_CHECK(pair.in.dtype == pair.out.dtype, "an all-gather keeps the dtype");
    ZS_CHECK_EQ(pair.out.count, pair.in.count * world_size, "elements of an all-gather's output");
  }
}

void check_arguments(const std::vector<ReducePair>& pairs, int world_size) {
  for (const ReducePair& pair : pairs) {
    check_memory(pair.in);
    check_memory(pair.out.read());
    ZS_CHECK(is_float(pair.in.dtype), "a reduce-scatter sums floats");
    ZS_CHECK(pair.out.dtype == pair.in.dtype || pair.out.dtype == DType::fp32,
             "a reduce-scatter stores what it read, or fp32");
    ZS_CHECK_EQ(pair.in.count, pair.out.count * world_size, "elements of a reduce-scatter's input");
  }
}

void check_arguments(const Piece& piece, ReduceOp op) {
  check_memory(piece.read());
  ZS_CHECK(piece.dtype != DType::uint8 || op == ReduceOp::max, "bytes have a maximum, not a sum");
}

void check_root(int root, int world_size) {
  ZS_CHECK_GE(root, 0, "no such root");
  ZS_CHECK_LT(root, world_size, "no such root");
}

std::uint64_t shape_of(const std::vector<GatherPair>& pairs) {
  Fnv1a hash;
  for (const GatherPair& pair : pairs) add_shape(hash, pair.in);
  return hash.value();
}

std::uint64_t shape_of(const std::vector<ReducePair>& pairs, const ReduceOptions& options) {
  Fnv1a hash;
  for (const ReducePair& pair : pairs) {
    add_shape(hash, pair.in);
    add_shape(hash, pair.out.read());
  }
  hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(options.scale)});
  return hash.add(std::uint64_t{options.accumulate}).value();
}

std::uint64_t shape_of(const Piece& piece, int option) {
  Fnv1a hash;
  add_shape(hash, piece.read());
  return hash.add(static_cast<std::uint64_t>(option)).value();
}

}  // namespace zeroshard
