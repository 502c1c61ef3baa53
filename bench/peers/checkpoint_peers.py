"""Saves or loads with torch.distributed.checkpoint or DeepSpeed, on the ranks that torchrun has started.

  torchrun --nproc-per-node 2 checkpoint_peers.py dcp|deepspeed save|load FOLDER BYTES

Prints what it took, from a moment that all ranks have come to until the last one's data is on the disk (save) or in
its tensors (load), as one line of JSON. What is loaded is compared with what was saved, behind the clock.
"""
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

TENSORS = 48
STATES = ("value", "exp_avg", "exp_avg_sq")


def seconds_of(act):
    dist.barrier()
    begin = time.perf_counter()
    act()
    dist.barrier()
    return time.perf_counter() - begin


def sync_files(folder):
    """Whatever the library has left in the kernel's cache; each rank its part of the files."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    for path in files[dist.get_rank() :: dist.get_world_size()]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.close(descriptor)


# --- torch.distributed.checkpoint ------------------------------------------------------------------------------------
def sharded_states(numel, filled):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    states = {}
    for number in range(TENSORS):
        for state in STATES:
            own = numel // dist.get_world_size()
            local = torch.full((own,), float(number)) if filled else torch.zeros(own)
            if filled:
                local += torch.arange(own) % 1024
            states[f"{state}.{number}"] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
    return states


def run_dcp(what, folder, total):
    import torch.distributed.checkpoint as dcp

    numel = total // (4 * TENSORS * len(STATES)) // dist.get_world_size() * dist.get_world_size()
    states = sharded_states(numel, filled=what == "save")
    if what == "save":
        def save():
            dcp.save(states, storage_writer=dcp.FileSystemWriter(folder, single_file_per_rank=True, sync_files=True))
        return seconds_of(save)
    seconds = seconds_of(lambda: dcp.load(states, storage_reader=dcp.FileSystemReader(folder)))
    for name, value in states.items():
        local = value.to_local()
        expected = float(name.split(".")[1]) + torch.arange(local.numel()) % 1024
        assert torch.equal(local, expected), name
    return seconds


# --- DeepSpeed -------------------------------------------------------------------------------------------------------
class Weights(torch.nn.Module):
    def __init__(self, numel):
        super().__init__()
        self.all = torch.nn.ParameterList(torch.nn.Parameter(torch.full((numel,), 0.01)) for _ in range(TENSORS))

    def forward(self):
        return sum(weight.sum() for weight in self.all)


def run_deepspeed(what, folder, total):
    import deepspeed

    model = Weights(total // (4 * TENSORS * len(STATES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2},
              "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    if what == "save":
        engine.backward(engine())
        engine.step()

        def save():
            engine.save_checkpoint(folder, tag="bench")
            sync_files(folder)
        return seconds_of(save)
    loaded = []
    seconds = seconds_of(lambda: loaded.append(engine.load_checkpoint(folder, tag="bench")[0]))
    assert loaded[0] is not None
    assert not torch.equal(model.all[0].float(), torch.full_like(model.all[0], 0.01, dtype=torch.float32))
    return seconds


def main():
    peer, what, folder, total = sys.argv[1:]
    torch.set_num_threads(1)
    if peer == "deepspeed":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo")
    else:
        dist.init_process_group("gloo")
    seconds = {"dcp": run_dcp, "deepspeed": run_deepspeed}[peer](what, folder, int(total))
    if dist.get_rank() == 0:
        print("RESULT", json.dumps({"seconds": seconds, "ranks": dist.get_world_size()}), flush=True)
    dist.barrier()
    os._exit(0)  # a peer's threads may keep the process alive


if __name__ == "__main__":
    main()
