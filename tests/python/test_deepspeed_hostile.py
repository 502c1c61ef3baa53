"""Files that want to run something, to exhaust memory, or that are damaged: refused in a sentence, or read as what they were."""
import collections
import io
import os
import pickle
import pickletools
import random
import re
import resource
import shutil
import struct
import zipfile

import pytest
import torch
from deepspeed_archives import NAMES, saved, truth_of, unpack

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.deepspeed_checkpoint import open_checkpoint, tag_folder
from zeroshard.deepspeed_checkpoint.inert_pickle import Unknown, load
from zeroshard.deepspeed_checkpoint.open_files import OpenFiles
from zeroshard.deepspeed_checkpoint.stand_ins import BUILDERS
from zeroshard.deepspeed_checkpoint.torch_file import TorchFile
from zeroshard.errors import StorageError

SENTENCE = re.compile(r"\[checkpoint\] [^\n]+: [^\n]+; [^\n]+")
MODEL = "mp_rank_00_model_states.pt"


def refused(function, *words):
    with pytest.raises(StorageError) as error:
        function()
    text = str(error.value)
    assert SENTENCE.fullmatch(text) and all(word in text for word in words), text
    return text


def value_of(text):
    return load(text, BUILDERS, lambda said: said)


def zipped(text, path, **more):
    """A file of torch.save's with this pickle."""
    with zipfile.ZipFile(path, "w", **more) as archive:
        archive.writestr("name/data.pkl", text)
        archive.writestr("name/byteorder", "little")
    return path


# --- code
class Calls:
    def __init__(self, function, *arguments):
        self.called = (function, arguments)

    def __reduce__(self):
        return self.called


def attacks(marker):
    """Pickles that make Python's unpickler run something; each would leave the marker."""
    touch = f"touch {marker}"
    yield "system", pickle.dumps(Calls(os.system, touch), 2)
    yield "eval", pickle.dumps(Calls(eval, f"open({str(marker)!r}, 'w')"), 4)
    yield "mkdir in a table", pickle.dumps({"a": [Calls(os.mkdir, str(marker))]}, 5)
    yield "in an argument", pickle.dumps(Calls(collections.OrderedDict, Calls(os.system, touch)), 2)
    yield "as a key", b"\x80\x02}" + pickle.dumps(Calls(os.system, touch), 2)[2:-1] + b"K\x02s."
    yield "INST", b"(S'" + touch.encode() + b"'\nios\nsystem\n."
    yield "OBJ", b"(cos\nsystem\nS'" + touch.encode() + b"'\no."
    yield "EXT", b"\x82\x01."
    yield "PERSID", b"Pwhatever\n."
    yield "names of torch", b"ctorch.serialization\nload\n(X\x01\x00\x00\x00xtR."
    yield "dotted name", b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x8c" + bytes([len(touch)]) + touch.encode() + b"\x85R."
    yield "state of an object", pickle.dumps(Calls(object), 2)[:-1] + b"}X\x09\x00\x00\x00__class__cos\nsystem\nsb."
    # Through the functions of ours: a tensor of a type that would be called, an object of a foreign class.
    yield "of_type", b"ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nNX" + struct.pack("<I", len(touch)) + touch.encode() + b"\x85Nt" + b"R."
    yield "reconstructor", b"ccopyreg\n_reconstructor\n(cos\nsystem\nNNtR."


ATTACKS = [name for name, _ in attacks("x")]


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_of_a_file_is_run(tmp_path, name):
    marker = tmp_path / "it_ran"
    text = dict(attacks(marker))[name]
    try:
        value = value_of(text)
    except ValueError:
        value = None
    assert not marker.exists() and not callable(value)
    file = zipped(text, tmp_path / "evil.pt")
    try:
        TorchFile(file, OpenFiles())
    except StorageError as error:
        assert SENTENCE.fullmatch(str(error))
    assert not marker.exists()


def test_the_attacks_are_real(tmp_path):
    """Python's own unpickler runs them."""
    ran = set()
    for name, text in attacks(tmp_path / "it_ran"):
        try:
            pickle.loads(text)
        except Exception:
            pass
        if (tmp_path / "it_ran").exists():
            ran.add(name)
            os.rmdir(tmp_path / "it_ran") if (tmp_path / "it_ran").is_dir() else (tmp_path / "it_ran").unlink()
    assert ran >= {"system", "eval", "mkdir in a table", "in an argument", "as a key", "INST", "OBJ", "dotted name"}


def test_objects_where_states_belong_are_refused_by_name(tmp_path):
    folder = unpack("stage2_bf16", tmp_path) / "global_step3"
    path = next(folder.glob("*rank_1*optim_states.pt"))
    saved({"optimizer_state_dict": Calls(os.system, "true")}, path)
    refused(lambda: open_checkpoint(folder), "posix.system", path.name)
    saved({"module": {"up.bias": Calls(os.system, "true")}}, folder / MODEL)
    refused(lambda: open_checkpoint(folder), "posix.system", MODEL)


# --- memory and time
def test_small_files_cannot_ask_for_much_memory(tmp_path):
    memo = b"\x80\x02Nr\xff\xff\xff\xff."                       # Python's unpickler makes a table of 2^32 entries
    nested = b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b"."
    long_text = b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x."
    long_bytes = b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x."
    deep_key = b"\x80\x02}" + b")" + b"\x85" * 300_000 + b"K\x01s."  # to hash it would end the process
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in (memo, nested, long_text, long_bytes, deep_key):
        try:
            value_of(text)
        except ValueError:
            pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


def test_tables_that_hold_themselves_are_left_out(tmp_path, caplog):
    folder = unpack("stage2_bf16", tmp_path) / "global_step3"
    bomb = []
    for _ in range(64):
        bomb = [bomb, bomb]     # 2^64 values for who walks it
    circle = {}
    circle["again"] = circle
    with zipfile.ZipFile(folder / MODEL) as archive:
        records = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    pickled = next(name for name in records if name.endswith("data.pkl"))
    extra = pickle.dumps({"bomb": bomb, "circle": circle, "kept": 5}, 2)
    # The client's keys, put into the table of the model's file.
    items = extra[extra.index(b"(") : -1]
    records[pickled] = records[pickled][:-1] + shifted(items, 10**6) + b"."
    with zipfile.ZipFile(folder / MODEL, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.client_state() == {"kept": 5, "circle": {}}
    assert "client_state.bomb" in caplog.text and "client_state.circle.again is too large" in caplog.text


def shifted(text, by):
    """Its entries of the memo, under other numbers."""
    def put(number):
        return b"r" + struct.pack("<I", number + by)

    out, stream = b"", io.BytesIO(text)
    for opcode, argument, at in pickletools.genops(text + b"."):
        end = at + 1
        stream.seek(at + 1)
        if opcode.name in ("BINPUT", "LONG_BINPUT"):
            out += put(argument)
            continue
        if opcode.name in ("BINGET", "LONG_BINGET"):
            out += b"j" + struct.pack("<I", argument + by)
            continue
        if opcode.name == "STOP":
            break
        opcode.arg.reader(stream) if opcode.arg is not None else None
        end = stream.tell() if opcode.arg is not None else end
        out += text[at:end]
    return out


@pytest.mark.parametrize("arguments, words", [
    ((0, (2**40,), (1,)), "larger than its storage"), ((0, (4,), (2**40,)), "beyond its storage"), ((-1, (4,), (1,)), "no numbers"),
    ((3, (4,), (1,)), "beyond its storage"), ((0, (2,) * 65, (1,) * 65), "no numbers"), ((0, (4,), (-1,)), "no numbers"),
    ((0, (True,), (1,)), "no numbers"), ((0, ("4",), (1,)), "no numbers"), ((0, (2, 2), (1,)), "no numbers"),
])
def test_tensors_lie_within_their_storage(tmp_path, arguments, words):
    storage = torch.arange(4.0).untyped_storage()

    class Tensor:
        def __reduce__(self):
            rebuilt = torch.storage.TypedStorage(wrap_storage=storage, dtype=torch.float32, _internal=True)
            return torch._utils._rebuild_tensor_v2, (rebuilt, *arguments, False, collections.OrderedDict())

    path = saved(Tensor(), tmp_path / "odd.pt")
    refused(lambda: TorchFile(path, OpenFiles()), words)


def test_tensors_of_any_strides_are_read(tmp_path):
    made = {"transposed": torch.arange(12.0).reshape(3, 4).t(), "stepped": torch.arange(20.0)[3:15:4], "scalar": torch.tensor(5),
            "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "parameter": torch.nn.Parameter(torch.ones(3)),
            "flags": torch.tensor([True, False]), "none": torch.empty(0, 3), "float8": torch.zeros(2, dtype=torch.float8_e4m3fn)}
    for old in (False, True):
        if old:
            del made["float8"]  # in the old format nobody can say how long it is
        file = TorchFile(saved(made, tmp_path / f"{old}.pt", _use_new_zipfile_serialization=not old), OpenFiles())
        for name, tensor in made.items():
            if name == "float8":
                assert isinstance(file.root[name], Unknown) and "_rebuild_tensor_v3" in file.root[name].kind
            else:
                assert torch.equal(file.root[name].read().reshape(tensor.shape), tensor.detach()) and file.root[name].shape == tensor.shape
                low, high = tensor.numel() // 3, tensor.numel() // 2
                assert torch.equal(file.root[name].read(low, high), tensor.detach().flatten()[low:high])


def test_archives_are_no_bombs(tmp_path):
    refused(lambda: TorchFile(zipped(pickle.dumps(1, 2), tmp_path / "deflated.pt", compression=zipfile.ZIP_DEFLATED), OpenFiles()), "compressed")
    path = zipped(pickle.dumps(1, 2), tmp_path / "huge.pt")
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 20 : entry + 28] = struct.pack("<II", 2**31, 2**31)  # both sizes of the first record
    path.write_bytes(data)
    refused(lambda: TorchFile(path, OpenFiles()), "cut short")


# --- damage
@pytest.mark.parametrize("name", ["stage1_bf16", "stage3_bf16"])
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path, name):
    folder = unpack(name, tmp_path) / "global_step3"
    truth = truth_of(name, str(tmp_path))
    dice = random.Random(name)
    files = sorted(folder.glob("*.pt"))
    refusals = 0
    for _ in range(150):
        path = dice.choice(files)
        sound = path.read_bytes()
        data = bytearray(sound)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        try:
            with open_checkpoint(folder) as checkpoint:
                checkpoint.verify()
                assert all(torch.equal(checkpoint.read(*key), truth.elements(*key)) for key in truth.states)
        except StorageError as error:
            refusals += 1
            assert SENTENCE.fullmatch(str(error)) and path.name in str(error)
        path.write_bytes(sound)
    assert refusals > 50  # much of so small files is padding


@pytest.mark.parametrize("name", ["stage2_fp32", "stage3_fp16", "stage2_legacy_files"])
def test_a_file_cut_short_is_refused(tmp_path, name):
    folder = tag_folder(unpack(name, tmp_path))
    dice = random.Random(name)
    for path in sorted(folder.glob("*.pt")):
        sound = path.read_bytes()
        for length in [0, 1, len(sound) - 1, *(dice.randrange(len(sound)) for _ in range(12))]:
            path.write_bytes(sound[:length])
            refused(lambda: open_checkpoint(folder), path.name)
        path.write_bytes(sound)
    open_checkpoint(folder).close()


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    folder = unpack("stage2_fp32", tmp_path) / "global_step3"
    with open_checkpoint(folder) as checkpoint:
        for path in folder.glob("*optim_states.pt"):
            os.truncate(path, 100)
        refused(lambda: checkpoint.read("up.weight"), "cut short")
        shutil.rmtree(folder)
    refused(lambda: open_checkpoint(folder), "there is no checkpoint")


def test_files_of_random_bytes_are_refused(tmp_path):
    dice = random.Random(5)
    for size in (0, 10, 1000, 5000):
        (tmp_path / "x.pt").write_bytes(dice.randbytes(size))
        refused(lambda: TorchFile(tmp_path / "x.pt", OpenFiles()), "none of torch.save's")


def test_random_pickles_end_in_a_value_or_a_refusal():
    """Operations in any order, over the ones that there are."""
    dice = random.Random(7)
    words = [b"(", b".", b"0", b"1", b"2", b"N", b"K\x05", b"]", b"}", b")", b"\x85", b"\x86", b"\x87", b"t", b"a", b"e", b"s", b"u", b"b",
             b"R", b"\x81", b"\x88", b"q\x01", b"h\x01", b"\x94", b"X\x01\x00\x00\x00a", b"ccollections\nOrderedDict\n", b"Q",
             b"ctorch._utils\n_rebuild_tensor_v2\n", b"cbuiltins\nset\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n", b"\x8f", b"\x90", b"\x91",
             b"cnumpy.core.multiarray\n_reconstruct\n", b"ctorch\nSize\n", b"cargparse\nNamespace\n", b"\x93", b"d", b"l", b"G" + bytes(8)]
    ended = collections.Counter()
    for _ in range(20_000):
        text = b"\x80\x02" + b"".join(dice.choices(words, k=dice.randint(1, 30))) + b"."
        try:
            value_of(text)
            ended["value"] += 1
        except ValueError:
            ended["refusal"] += 1
    assert min(ended["value"], ended["refusal"]) > 100
