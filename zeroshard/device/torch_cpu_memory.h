// Makes torch's tensors on the CPU count, as its allocator for accelerators counts by itself.
#pragma once

namespace zeroshard {

// From now on cpu_memory_count() has what torch takes for tensors on the CPU. A second call does
// nothing. What was taken before is not counted, neither then nor when it is given back.
void count_torch_cpu_memory();

}  // namespace zeroshard
