#include "zeroshard/comm/call.h"

#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

std::int64_t memory_of(const std::vector<GatherPair>& pairs) {
  std::int64_t bytes = 0;
  for (const GatherPair& pair : pairs) bytes += pair.out.bytes();
  return bytes;
}

std::int64_t memory_of(const std::vector<ReducePair>& pairs) {
  std::int64_t bytes = 0;
  for (const ReducePair& pair : pairs) bytes += pair.in.bytes();
  return bytes;
}

}  // namespace

void refuse_device_memory(const Call& call, std::string_view backend) {
  const auto refuse = [&](const ConstPiece& piece) {
    if (piece.device == DeviceKind::cpu) return;
    throw CommError(
        {.what = fmt::format("the {} backend moves CPU memory only", backend),
         .value = fmt::format("{} of {} memory", describe(call.tag), name_of(piece.device)),
         .remedy = "tell join_ranks() the device, or use carry_through_host()"});
  };
  refuse(call.piece.read());
  for (const GatherPair& pair : call.gathers) refuse(pair.in), refuse(pair.out.read());
  for (const ReducePair& pair : call.reduces) refuse(pair.in), refuse(pair.out.read());
}

Handle CallCommunicator::all_gather_into(const std::vector<GatherPair>& pairs,
                                         const std::string& label) {
  check_arguments(pairs, world_size());
  Call call = new_call(Operation::all_gather, label, {shape_of(pairs), memory_of(pairs)});
  call.gathers = pairs;
  return start(std::move(call));
}

Handle CallCommunicator::reduce_scatter_into(const std::vector<ReducePair>& pairs,
                                             const ReduceOptions& options,
                                             const std::string& label) {
  check_arguments(pairs, world_size());
  Call call =
      new_call(Operation::reduce_scatter, label, {shape_of(pairs, options), memory_of(pairs)});
  call.reduces = pairs;
  call.reduce_options = options;
  return start(std::move(call));
}

Handle CallCommunicator::all_reduce(const Piece& piece, ReduceOp op, const std::string& label) {
  check_arguments(piece, op);
  Call call = new_call(Operation::all_reduce, label,
                       {shape_of(piece, static_cast<int>(op)), piece.bytes()});
  call.piece = piece;
  call.op = op;
  return start(std::move(call));
}

Handle CallCommunicator::broadcast(const Piece& piece, int root, const std::string& label) {
  check_arguments(piece, ReduceOp::max);
  check_root(root, world_size());
  Call call = new_call(Operation::broadcast, label, {shape_of(piece, root), piece.bytes()});
  call.piece = piece;
  call.root = root;
  return start(std::move(call));
}

Handle CallCommunicator::barrier(const std::string& label) {
  return start(new_call(Operation::barrier, label, {}));
}

Call CallCommunicator::new_call(Operation operation, const std::string& label, Shape shape) {
  return {.tag = {next_sequence_++, operation, label, shape.hash, shape.bytes}};
}

Handle QueuedCommunicator::start(Call call) {
  Handle handle(call.completion);
  submit(std::move(call));
  return handle;
}

}  // namespace zeroshard
