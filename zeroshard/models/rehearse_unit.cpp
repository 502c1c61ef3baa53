#include "zeroshard/models/rehearse_unit.h"

#include <utility>

namespace zeroshard {
namespace {

SizeTensor input_of(SizeTape& tape, const UnitRehearsal& unit, int width) {
  if (unit.input_numel == 0) return {};
  return unit.input_needs_gradient ? tape.input(unit.input_numel, width)
                                   : tape.make(unit.input_numel, width);
}

UnitActivations rehearse_kept(const UnitRehearsal& unit, const ActivationQuery& query,
                              bool trains) {
  SizeTape tape(granule_of(query.device));
  tape.hold_gradients(query.holds_gradients);
  const SizeOps ops(tape, query.device, query.width, trains);
  UnitActivations result{.left = unit.left};
  SizeTensor out = unit.forward(ops, input_of(tape, unit, query.width));
  result.forward = tape.peak();
  result.forward_work = tape.take_work();
  out.memory = nullptr;
  result.kept = tape.now();
  tape.forget_peak();
  tape.backward(out, tape.take(out.bytes()));
  result.backward = tape.peak();
  result.backward_work = tape.take_work();
  return result;
}

UnitActivations rehearse_checkpointed(const UnitRehearsal& unit, const ActivationQuery& query,
                                      bool trains) {
  SizeTape tape(granule_of(query.device));
  tape.hold_gradients(query.holds_gradients);
  const SizeOps ops(tape, query.device, query.width, trains);
  UnitActivations result{.left = unit.left};
  const Memory beside = tape.take(unit.kept_beside);
  SizeTensor input = input_of(tape, unit, query.width);
  tape.set_recording(false);
  SizeTensor out = unit.forward(ops, input);
  result.forward = tape.peak();
  result.forward_work = tape.take_work();
  out.memory = nullptr;
  result.kept = tape.now();
  tape.set_recording(true);
  tape.forget_peak();
  const Memory gradient = tape.take(out.bytes());
  out = (unit.again ? unit.again : unit.forward)(ops, std::exchange(input, {}));
  out.memory = nullptr;
  tape.backward(out, gradient);
  result.backward = tape.peak();
  result.backward_work = tape.take_work();
  return result;
}

}  // namespace

UnitActivations rehearse(const UnitRehearsal& unit, const ActivationQuery& query, bool trains) {
  return unit.checkpointed ? rehearse_checkpointed(unit, query, trains)
                           : rehearse_kept(unit, query, trains);
}

}  // namespace zeroshard
