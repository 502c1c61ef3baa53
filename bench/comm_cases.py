"""What is measured: buffers, the values in them, and the check of what arrives.

Values are small whole numbers, so that sums are exact in bf16 too (up to 256) and there is one
right answer. They repeat every 113 elements, a prime: a part that lands a power of two off shows,
and so does one of the wrong rank or with the wrong addend.
"""
import torch

PERIOD = 113
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def values(rank, count, dtype, first=0):
    """Elements [first, first + count) of the rank's buffer, each from 0 to 112."""
    index = torch.arange(first, first + PERIOD)
    once = ((index * (3 + 2 * rank) + 31 * rank + 1) % PERIOD).to(dtype)
    return once.repeat(count // PERIOD + 1)[:count]


class AllGather:
    operation = "all-gather"

    def __init__(self, full_bytes, dtype, rank, world_size):
        self.full_bytes, self.dtype = full_bytes, dtype
        count = full_bytes // DTYPES[dtype].itemsize // world_size
        self.input = values(rank, count, DTYPES[dtype])
        self.out = torch.zeros(count * world_size, dtype=DTYPES[dtype])
        self.expected = torch.cat([values(r, count, DTYPES[dtype]) for r in range(world_size)])

    def poison(self):
        self.out.fill_(float("nan"))

    def run(self, library):
        return library.all_gather(self.out, self.input)


class ReduceScatter:
    operation = "reduce-scatter"

    def __init__(self, full_bytes, dtype, rank, world_size):
        self.full_bytes, self.dtype = full_bytes, dtype
        count = full_bytes // DTYPES[dtype].itemsize // world_size
        self.input = values(rank, count * world_size, DTYPES[dtype])
        self.spare = self.input.clone()
        self.out = torch.zeros(count, dtype=DTYPES[dtype])
        self.expected = sum(values(r, count, DTYPES[dtype], first=rank * count)
                            for r in range(world_size))

    def poison(self):
        self.out.fill_(float("nan"))
        self.spare.copy_(self.input)

    def run(self, library):
        return library.reduce_scatter(self.out, self.input, self.spare)


def verify(case, library):
    """Runs once into poisoned memory; raises where a single element is wrong, or the input was
    changed."""
    before = case.input.clone()
    case.poison()
    result = case.run(library)
    what = f"{library.name}: {case.operation} of {case.full_bytes} bytes, {case.dtype}"
    if not torch.equal(case.input, before):
        raise RuntimeError(f"{what}: the input was overwritten")
    if not torch.equal(result, case.expected):
        wrong = int((result != case.expected).nonzero()[0])
        raise RuntimeError(f"{what}: element {wrong} is {float(result[wrong])}, "
                           f"should be {float(case.expected[wrong])}")
