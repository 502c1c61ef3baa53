// Parameters in full, out of the shards of all ranks, without gathering their units.
#include <tuple>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/engine_core.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard::python {
namespace {

// A parameter, and the tensor that takes its values.
using Wanted = std::tuple<std::size_t, std::size_t, at::Tensor>;

// Each rank's part goes from its shard to the same place of the tensor on all ranks.
void begin_parts(Core& core, const Wanted& wanted, std::vector<Handle>& under_way) {
  const auto& [unit, parameter, into] = wanted;
  const FlatUnit& flat = core.unit(unit);
  const UnitLayout::Location at = flat.layout().locate(parameter);
  const FlatGroup& group = flat.layout().groups()[at.group];
  const Span whole = group.layout.parameter_span(at.index);
  const Device device = core.state_memory().device();
  for (int rank = 0; rank < core.comm().world_size(); ++rank) {
    const Span part = group.layout.shard(rank).intersect(whole);
    if (part.empty()) continue;
    void* const data = element_at(into.data_ptr(), part.begin() - whole.begin(), group.dtype);
    if (rank == flat.rank()) {
      const std::int64_t begin = part.begin() - flat.shard_begin(at.group);
      tensor_over(data, part.size(), group.dtype, device)
          .copy_(tensor_over(element_at(flat.shard(at.group), begin, group.dtype), part.size(),
                             group.dtype, flat.shard_device()));
    }
    under_way.push_back(core.comm().broadcast({data, part.size(), group.dtype, device.kind}, rank,
                                              flat.parameters()[parameter].name));
  }
}

// Of units that are not here in full. The tensors are dense, of the parameters' dtype, and on the
// engine's device. Collective.
void read_full(EngineCore& engine, const std::vector<Wanted>& all) {
  const py::gil_scoped_release others_run;
  const at::NoGradGuard no_grad;
  Core& core = engine.core();
  core.check_parameters_here();
  core.quiesce();
  std::vector<Handle> under_way;
  for (const Wanted& wanted : all) begin_parts(core, wanted, under_way);
  for (const Handle& part : under_way) part.wait();
}

}  // namespace

void bind_full_weights(py::class_<EngineCore>& type) { type.def("read_full", &read_full); }

}  // namespace zeroshard::python
