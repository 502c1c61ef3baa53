// Collectives over a fixed group of ranks: one small abstract class, one file per backend.
//
//   Handle gathered = comm.all_gather_into({{shard.read(), full}}, "block.3");
//   ... compute ...
//   gathered.wait(compute);  // handle.h says who waits, and where errors show
//
// Every rank calls the same operations, with the same label and sizes, in the same order and from
// one thread at a time. Operations start in that order, and several may be under way. Where two
// orders are needed (gathers and reductions, say), each has a sibling. A list of pairs is one
// operation: a bucket of several units is several pairs, and nobody concatenates them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "zeroshard/comm/handle.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/layout/sum_scratch.h"

namespace zeroshard {

// Rank r's `in` arrives at out[r * in.count] on every rank; out.count = in.count * world_size.
// `in` may be the own part of `out`.
struct GatherPair {
  ConstPiece in;
  Piece out;
};

// Rank r gets the sum over ranks of in[r * out.count ...]; in.count = out.count * world_size.
// The sum is made in fp32 in rank order whatever the dtypes; `out` may be fp32 where `in` is not.
struct ReducePair {
  ConstPiece in;
  Piece out;
};

struct ReduceOptions {
  float scale = 1.0F;       // multiplies the fp32 sum before it is stored
  bool accumulate = false;  // the sum is added to what `out` holds instead of replacing it
  // Memory of the device for sums that are made there, which several operations of one communicator
  // may share (layout/sum_scratch.h). Without, or where it is too small, the communicator has some.
  void* scratch = nullptr;
  std::int64_t scratch_bytes = 0;
};

enum class ReduceOp { sum, max };

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Who adds up what lies on devices. The same on all ranks.
  virtual DeviceSums device_sums() const { return DeviceSums::none; }

  virtual Handle all_gather_into(const std::vector<GatherPair>& pairs,
                                 const std::string& label) = 0;
  virtual Handle reduce_scatter_into(const std::vector<ReducePair>& pairs,
                                     const ReduceOptions& options, const std::string& label) = 0;
  // These two work in place. An all_reduce is for a few numbers: every rank sends all of them to
  // every other, and large sums are a reduce_scatter_into and an all_gather_into. Numbers of int32
  // are added as integers; uint8 has a maximum only.
  virtual Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) = 0;
  virtual Handle broadcast(const Piece& piece, int root, const std::string& label) = 0;
  virtual Handle barrier(const std::string& label) = 0;

  // Makes a communicator of the same ranks whose operations have an order of their own: they need
  // not be called in step with this one's. Every rank makes the same siblings in the same order,
  // before it uses them. A sibling costs little until it is used, and may outlive this one.
  virtual std::unique_ptr<Communicator> make_sibling() = 0;
};

// These say what each rank sends, as arithmetic: the ledger counts by them, and tests hold backends
// to them.
std::int64_t bytes_sent(const std::vector<GatherPair>& pairs, int world_size);
std::int64_t bytes_sent(const std::vector<ReducePair>& pairs, int world_size);

// These throw InvariantError where counts, dtypes or ranks do not fit together.
void check_arguments(const std::vector<GatherPair>& pairs, int world_size);
void check_arguments(const std::vector<ReducePair>& pairs, int world_size);
void check_arguments(const Piece& piece, ReduceOp op);
void check_root(int root, int world_size);

// These hash shapes for OperationTag.
std::uint64_t shape_of(const std::vector<GatherPair>& pairs);
std::uint64_t shape_of(const std::vector<ReducePair>& pairs, const ReduceOptions& options);
std::uint64_t shape_of(const Piece& piece, int option);

}  // namespace zeroshard
