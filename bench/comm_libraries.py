"""The contenders under one interface: blocking calls on CPU tensors, the same for all.

Ours is called through ctypes (some microseconds a call), gloo through torch.distributed (some
tens): what a user of each pays, and nothing from 1 MiB up.
"""
import ctypes
import datetime
import os

import torch
import torch.distributed as dist

DTYPES = [torch.float32, torch.bfloat16, torch.float16]  # in the order of comm_c_api.cpp


class Ours:
    name = "ours"

    def __init__(self, path, chunk_bytes=0):
        self.library = ctypes.CDLL(path)
        self.library.zs_bench_error.restype = ctypes.c_char_p
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        for function, types in {
            "open": [number],
            "all_gather": [pointer, pointer, number, ctypes.c_int],
            "reduce_scatter": [pointer, pointer, number, ctypes.c_int],
            "all_reduce": [pointer, number],
            "broadcast": [pointer, number, ctypes.c_int],
        }.items():
            getattr(self.library, f"zs_bench_{function}").argtypes = types
        self._call("open", chunk_bytes)
        self.rank = self.library.zs_bench_rank()
        self.world_size = self.library.zs_bench_world_size()

    def _call(self, function, *arguments):
        if getattr(self.library, f"zs_bench_{function}")(*arguments):
            raise RuntimeError(self.library.zs_bench_error().decode())

    def all_gather(self, out, part):
        self._call("all_gather", part.data_ptr(), out.data_ptr(), part.numel(),
                   DTYPES.index(part.dtype))
        return out

    def reduce_scatter(self, out, full, spare):
        self._call("reduce_scatter", full.data_ptr(), out.data_ptr(), out.numel(),
                   DTYPES.index(full.dtype))
        return out

    def all_reduce(self, numbers):
        self._call("all_reduce", numbers.data_ptr(), numbers.numel())

    def barrier(self):
        self._call("barrier")

    def number_of_rank_0(self, number):
        shared = torch.tensor([number], dtype=torch.int32)
        self._call("broadcast", shared.data_ptr(), 1, 0)
        return int(shared)

    def close(self):
        self._call("close")


class Gloo:
    name = "gloo"

    def __init__(self, ours):
        self.rank, self.world_size = ours.rank, ours.world_size
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # else it takes the host name's interface
        patience = datetime.timedelta(minutes=1)
        # Port 0 is one that is free; the other rank learns it through our library.
        store = None
        if ours.rank == 0:
            store = dist.TCPStore("127.0.0.1", 0, ours.world_size, True, patience,
                                  wait_for_workers=False)
        port = ours.number_of_rank_0(store.port if store else 0)
        if store is None:
            store = dist.TCPStore("127.0.0.1", port, ours.world_size, False, patience)
        dist.init_process_group("gloo", store=store, rank=ours.rank,
                                world_size=ours.world_size, timeout=patience)

    def all_gather(self, out, part):
        dist.all_gather_into_tensor(out, part)
        return out

    def reduce_scatter(self, out, full, spare):
        dist.reduce_scatter_tensor(out, full)
        return out

    def all_reduce(self, numbers):
        dist.all_reduce(numbers)

    def barrier(self):
        dist.barrier()

    def gather_objects(self, mine):
        """Every rank's object, by rank: how the ranks' times come together."""
        everyone = [None] * self.world_size
        dist.all_gather_object(everyone, mine)
        return everyone

    def close(self):
        dist.destroy_process_group()


class GlooByAllReduce:
    """gloo's all-reduce of the whole buffer, of which the rank then uses its part: twice the bytes,
    and yet often faster than its reduce-scatter. It overwrites its input, so it gets the spare."""
    name = "gloo by all-reduce"

    def __init__(self, gloo):
        self.rank, self.world_size, self.barrier = gloo.rank, gloo.world_size, gloo.barrier

    def reduce_scatter(self, out, full, spare):
        dist.all_reduce(spare)
        return spare.chunk(self.world_size)[self.rank]
