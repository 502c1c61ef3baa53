"""The Llama shapes of the GPU benchmarks. Free of torch, for those who only start others."""

# Layers, hidden, heads. The smallest one is for a CPU: does everything work? 12b has 12.27 G parameters, 17b 17.15 G.
SIZES = {"tiny": (2, 128, 4), "0.4b": (24, 1024, 16), "1.3b": (24, 2048, 16), "2.7b": (32, 2560, 20), "5b": (36, 3328, 26),
         "7b": (32, 4096, 32), "12b": (38, 5120, 40), "17b": (37, 6144, 48)}
VOCABULARY = 32000


def inner_width(hidden):
    return int(8 * hidden / 3) // 64 * 64
