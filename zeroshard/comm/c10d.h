// Ranks that meet in a process group of torch.distributed: one that Python made, of gloo or of any
// other backend that sends and receives host memory.
//
//   auto comm = make_c10d_communicator(group, {});
//
// Every message is a send and a receive of bytes, so that all dtypes travel alike and sums are
// ours: in fp32 and in rank order, with the bits of the other backends. Before the payload the
// ranks compare what they are about to do. After a failure every operation fails with the same
// error.
//
// CPU memory only: device memory goes through carry_through_host() (carry_through_host.h).
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

struct C10dOptions {
  CommOptions comm = {};
  bool shares_memory = true;  // between ranks of one host; the group then only introduces them
};

// The communicator and its siblings share the group, and tell their messages apart by tags. Nobody
// else uses the group, before, meanwhile or after: a failure leaves messages behind in it.
std::unique_ptr<Communicator> make_c10d_communicator(c10::intrusive_ptr<c10d::Backend> group,
                                                     const C10dOptions& options);

}  // namespace zeroshard
