// Brings in torch's accelerators, where there are any. Link zeroshard::torch_device.
//
//   if (load_accelerators() == 0) log_info("no GPU: {}", missing_reason(DeviceKind::cuda));
//   Stream stream = Stream::current({DeviceKind::cuda, 0});
//
// torch's CUDA half is opened only when a driver is found: it costs some 350 MB and half a second,
// and programs that link this library start without it. Call this before anything else asks torch
// for CUDA: torch remembers its first answer.
#pragma once

namespace zeroshard {

// The number of devices. The first call does the work, the others wait for it and answer the same;
// from any thread. Where it is 0, missing_reason() says why, and so does the error of backend_of().
int load_accelerators();

}  // namespace zeroshard
