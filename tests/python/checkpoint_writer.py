"""Writes checkpoints by docs/checkpoint_format.md alone: it shares no code with the engine."""
import json
from pathlib import Path

import torch
import xxhash
from safetensors.torch import save_file

CHUNK = 1 << 20
WORDS = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64", torch.bool: "BOOL"}


def write_checkpoint(folder, tensors, documents=None, ranks=2, kind="trained", dtype=None):
    """All values, each cut over the ranks. `dtype`: what the model computes with."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    entries = {}
    files = []
    for rank in range(ranks):
        parts = {name: _part(value, rank, ranks) for name, value in tensors.items()}
        path = folder / f"any_name_{rank}"
        save_file({name: part for name, (_, part) in parts.items() if part.numel() > 0}, path)
        data = path.read_bytes()
        chunks = [xxhash.xxh3_64_hexdigest(data[at : at + CHUNK]) for at in range(0, len(data), CHUNK)]
        files.append({"name": path.name, "bytes": len(data), "chunks": "".join(chunks)})
        header_bytes = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + header_bytes])
        for name, (begin, part) in parts.items():
            if part.numel() > 0:
                offset = 8 + header_bytes + header[name]["data_offsets"][0]
                entries.setdefault(name, []).append([rank, begin, begin + part.numel(), offset])
    body = json.dumps({
        "format": "zeroshard.checkpoint", "version": 1, "needs": [], "chunk_bytes": CHUNK, "files": files,
        "tensors": [_tensor(name, value, kind, dtype, entries.get(name, [])) for name, value in tensors.items()],
        "documents": documents or {}, "an unknown member": {"is": "passed over"},
    })[:-1]
    end = ',\n"checksum":"xxh3-64:%s"}\n' % xxhash.xxh3_64_hexdigest(body.encode())
    (folder / "manifest.json").write_text(body + end)


def _part(value, rank, ranks):
    flat = value.detach().reshape(-1)
    begin, end = flat.numel() * rank // ranks, flat.numel() * (rank + 1) // ranks
    return begin, flat[begin:end].clone()


def _tensor(name, value, kind, dtype, pieces):
    computes = dtype if dtype is not None and value.is_floating_point() else value.dtype
    return {"name": name, "kind": kind, "dtype": WORDS[computes], "shape": list(value.shape),
            "states": {"value": {"dtype": WORDS[value.dtype], "pieces": pieces}}}
