// What every backend must do, written once. A backend joins by calling these on each of its ranks;
// a broken promise throws, so that ranks need no test framework. The memory that moves lies on
// `device`.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard::contract {

void all_gather(Communicator& comm, std::int64_t count, DType dtype, Device device = kCpu);
void all_gather_in_place(Communicator& comm, std::int64_t count, Device device = kCpu);
void reduce_scatter(Communicator& comm, std::int64_t count, DType in, DType out,
                    Device device = kCpu);
void reduce_scatter_scales_and_accumulates(Communicator& comm, std::int64_t count,
                                           Device device = kCpu);
void all_reduce(Communicator& comm, std::int64_t count, DType dtype, ReduceOp op,
                Device device = kCpu);
void broadcast(Communicator& comm, std::int64_t count, DType dtype, Device device = kCpu);
// Lists of pairs of different sizes and dtypes, several operations in flight, waited out of order.
void several_in_flight(Communicator& comm, Device device = kCpu);
// Sums are rounded in rank order, and do not depend on how the payload is cut into pairs.
void rank_order_however_cut(Communicator& comm, Device device = kCpu);
// Siblings need not be called in step with each other.
void siblings_have_their_own_order(Communicator& comm, Device device = kCpu);
// An engine has two siblings of its own. The caller's operations come between the engine's, at
// other places on other ranks, and that is no mismatch.
void a_caller_between_an_engines_operations(Communicator& comm, Device device = kCpu);
// Several engines over one communicator, and engines that come and go.
void siblings_of_several_engines(Communicator& comm);
// An accelerator's stream waits for operations, and the host for none of them: what the stream is
// given next reads the results. On the CPU there is nothing to see.
void steps_without_waiting(Communicator& comm, Device device);
// As states of the host tier need it: gathers read the host's memory, pinned and not, and write the
// device's; reductions do the reverse. The device's stream waits, and the host for the sums alone.
void between_tiers(Communicator& comm, std::int64_t count, Device device = kCpu);
// The ledger's bytes equal the formulas.
void ledger_equals_formula(Communicator& comm, Device device = kCpu);

// All of the above over the sizes and dtypes that matter, and once with `large_count` elements. A
// backend whose sums are another library's need not add in rank order.
enum class Sums { in_rank_order, in_any_order };
void everything(Communicator& comm, std::int64_t large_count, Device device = kCpu,
                Sums sums = Sums::in_rank_order);

}  // namespace zeroshard::contract
