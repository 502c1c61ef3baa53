#include "zeroshard/trainer/batch_shape.h"

#include "zeroshard/base/error.h"
#include "zeroshard/config/batch_size.h"

namespace zeroshard {

BatchShape batch_shape(BatchOptions batch, const Communicator& comm, std::int64_t otherwise) {
  if (!batch.train && !batch.micro_per_rank) batch.train = otherwise;
  const config::SolvedBatch solved = config::solve_batch(batch, comm.world_size());
  if (!solved.sizes) throw ConfigError({.what = solved.what, .remedy = solved.remedy});
  return {.micro_per_rank = solved.sizes->micro_per_rank,
          .accumulation = solved.sizes->accumulation,
          .rank = comm.rank(),
          .world_size = comm.world_size()};
}

}  // namespace zeroshard
