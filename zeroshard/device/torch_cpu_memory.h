// Torch's tensors on the CPU, counted and kept as its allocator for accelerators does by itself.
#pragma once

namespace zeroshard {

// From now on large tensors on the CPU lie in an arena of ours (tensor_arena.h), and
// cpu_memory_count() has all of them. A second call does nothing. What was taken before is not
// counted, neither then nor when it is given back. For programs of our own: in somebody else's
// process his choice of an allocator stays.
void keep_torch_cpu_memory();

}  // namespace zeroshard
