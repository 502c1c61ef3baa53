// Functions that the host's compilers and nvcc both compile, so that a GPU does what the CPU does
// by the same text. To the host's compilers the mark means nothing.
#pragma once

#if defined(__CUDACC__)
#define ZS_HOST_DEVICE __host__ __device__
#else
#define ZS_HOST_DEVICE
#endif
