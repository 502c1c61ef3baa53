// A parameter by itself, before an engine has it: Init makes a flat unit of each, which
// initialize() repacks into units of its own.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include "zeroshard/engine/flat_unit.h"

namespace zeroshard::python {

namespace py = pybind11;

// Python's parameter is not the unit's leaf, or the two would keep each other alive where Python's
// collector cannot see it. So the caller shows the parameter what is gathered. The caller also
// brings the shards together, through torch's own process group.
class ProvisionalUnit {
 public:
  // Keeps this rank's part of `values`.
  ProvisionalUnit(const std::string& name, const at::Tensor& values, int rank, int world_size);

  at::Tensor own_part() const;  // without padding
  at::Tensor shard() const;     // with it: all ranks' are equal
  // Memory for all ranks' shards, one after the other.
  at::Tensor begin_gather();
  // They are all there. The parameter, over that memory, which lives as long as it is used.
  at::Tensor end_gather();
  // What somebody has made of the parameter, with padding, so that it can be sent to other ranks.
  at::Tensor written(const at::Tensor& values);
  // `keeps`: this rank's part becomes what was written.
  void release(bool keeps);

 private:
  const FlatLayout& layout() const { return unit_.layout().groups()[0].layout; }

  std::vector<std::int64_t> sizes_;
  FlatUnit unit_;
  at::Tensor full_;  // while it is gathered
};

void bind_provisional_unit(py::module_& module);

}  // namespace zeroshard::python
