"""A reader of model.safetensors that shares nothing with the writer, and what follows from its
shapes: the bytes that ZeroShard's layout rules (docs/stages.md) give."""
import json
import math
import struct
from array import array

BYTES_OF = {"F32": 4, "BF16": 2, "F16": 2}


class TensorFile:
    """shapes: name -> list; dtypes: name -> text; data: name -> bytes."""

    def __init__(self, path):
        whole = path.read_bytes()
        header_bytes, = struct.unpack("<Q", whole[:8])
        header = json.loads(whole[8:8 + header_bytes])
        header.pop("__metadata__", None)
        self.shapes = {name: entry["shape"] for name, entry in header.items()}
        self.dtypes = {name: entry["dtype"] for name, entry in header.items()}
        self.data = {}
        self.end = 8 + header_bytes  # the greatest offset that is used
        for name, entry in header.items():
            begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
            self.data[name] = whole[begin:end]
            self.end = max(self.end, end)
        self.file_bytes = len(whole)

    def floats(self):
        """All numbers of an fp32 file, one tensor after the other."""
        numbers = array("f")
        for name in sorted(self.data):
            numbers.frombytes(self.data[name])
        return numbers


def expected_shapes(layers, hidden, sequence, vocabulary=256):
    """A gpt with all defaults."""
    shapes = {"embedding.tokens": [vocabulary, hidden], "embedding.positions": [sequence, hidden]}
    for block in (f"blocks.{i}." for i in range(layers)):
        for norm in ("attention_norm", "mlp_norm"):
            shapes |= {f"{block}{norm}.weight": [hidden], f"{block}{norm}.bias": [hidden]}
        for name, wide, deep in (("attention.qkv", 3 * hidden, hidden),
                                 ("attention.out", hidden, hidden),
                                 ("mlp.up", 4 * hidden, hidden), ("mlp.down", hidden, 4 * hidden)):
            shapes |= {f"{block}{name}.weight": [wide, deep], f"{block}{name}.bias": [wide]}
    return shapes | {"head.norm.weight": [hidden], "head.norm.bias": [hidden],
                     "head.out.weight": [vocabulary, hidden]}


def unit_of(name):
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "blocks" else parts[0]


def padded_units(shapes, ranks):
    """Elements of each unit: every parameter starts at a multiple of 64, and the whole is one of
    64 x ranks."""
    units = {}
    for name, shape in shapes.items():
        size = math.ceil(math.prod(shape) / 64) * 64
        units[unit_of(name)] = units.get(unit_of(name), 0) + size
    return [math.ceil(size / (64 * ranks)) * 64 * ranks for size in units.values()]


def buffer_bytes(unit_numels, width):
    """One buffer per unit, each a multiple of 256 bytes."""
    return sum(math.ceil(numel * width / 256) * 256 for numel in unit_numels)
