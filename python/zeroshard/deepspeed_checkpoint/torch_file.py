"""A file of torch.save's: its records, and what its pickle says, without anything of torch's reader.

The format of today is a zip archive in which every record is stored as it is. Who asked for checkpoint_serialization: false has
the one from before torch 1.6: several pickles, then the storages, each behind its length.
"""
import pickletools
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from zeroshard.deepspeed_checkpoint.inert_pickle import Name, Unknown, load
from zeroshard.deepspeed_checkpoint.open_files import MOST_AT_ONCE, Cautious, OpenFiles, unreadable
from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, refusal
from zeroshard.deepspeed_checkpoint.stand_ins import BUILDERS
from zeroshard.deepspeed_checkpoint.stored_tensor import Storage

CHUNK = 2**20
_LOCAL_HEADER = 30
_OLD_MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"  # the first pickle of the old format
_MISREAD = (ValueError, KeyError, IndexError, TypeError, OverflowError, EOFError, MemoryError, NotImplementedError, struct.error,
            zipfile.BadZipFile)


@dataclass(frozen=True)
class Extent:
    offset: int
    nbytes: int
    crc: int | None  # None where torch was told to leave it out


class TorchFile:
    """Tensors in its value, `root`, are StoredTensors, which read from here."""

    def __init__(self, path: Path, files: OpenFiles) -> None:
        self.path = path
        self.records: dict[str, Extent] = {}
        self._files = files
        try:
            with open(path, "rb") as file:
                old = file.read(len(_OLD_MAGIC)) == _OLD_MAGIC
                self.root = (_OldFile if old else _ZipFile)(self, file).root
        except OSError as error:
            raise unreadable(path, error) from None
        except _MISREAD as error:
            reason = str(error) or type(error).__name__
            raise refusal("a file of the checkpoint is damaged, or none of torch.save's", f"{path}, {reason[:200]}", DAMAGED) from None

    def take_root(self) -> Any:
        """The value, which is not kept here any longer: tensors of it hold this, and would hold it all."""
        root, self.root = self.root, None
        return root

    def read(self, record: str, begin: int, into: memoryview) -> None:
        """As many bytes of a record as `into` has."""
        extent = self.records[record]
        if not 0 <= begin <= begin + len(into) <= extent.nbytes:
            raise IndexError(f"{len(into)} bytes from {begin} on of a record of {extent.nbytes}")
        self._files.read(self.path, extent.offset + begin, into)

    def verify(self) -> None:
        """Reads every record once, and compares with the checksum that the archive has of it."""
        for name, extent in self.records.items():
            if extent.crc is not None and self._crc(name, extent.nbytes) != extent.crc:
                raise refusal("a file of the checkpoint is damaged", f"{self.path}, record {name}", DAMAGED)

    def _crc(self, name: str, nbytes: int) -> int:
        crc = 0
        chunk = memoryview(bytearray(min(CHUNK, nbytes)))
        for begin in range(0, nbytes, CHUNK):
            part = chunk[: min(CHUNK, nbytes - begin)]
            self.read(name, begin, part)
            crc = zlib.crc32(part, crc)
        return crc

    def storage(self, said: Any, prefix: str) -> Any:
        """What the pickle says of a storage, as one of ours."""
        if not isinstance(said, tuple) or len(said) < 5 or said[0] != "storage" or not isinstance(said[1], Name):
            raise ValueError("something lies outside the pickle that is no storage")
        if said[1].module != "torch" or not isinstance(said[2], str):
            return Unknown(str(said[1]))
        return Storage.of(self, said[1].name, prefix + said[2], said[4]) or Unknown(str(said[1]))


class _ZipFile:
    def __init__(self, owner: TorchFile, file: BinaryIO) -> None:
        self._owner = owner
        self._bytes = owner.path.stat().st_size
        archive = zipfile.ZipFile(Cautious(file))  # type: ignore[arg-type]
        prefix = self._folder_of_the_pickle(archive)
        for entry in archive.infolist():
            owner.records[entry.filename.removeprefix(prefix)] = self._extent(file, entry)
        if "byteorder" in owner.records and self._whole("byteorder") != b"little":
            raise ValueError("its numbers are big-endian")
        text = self._whole("data.pkl")
        if owner.records["data.pkl"].crc not in (None, zlib.crc32(text)):
            raise ValueError("the checksum of data.pkl is wrong")
        self.root = load(text, BUILDERS, self._stored)

    def _folder_of_the_pickle(self, archive: zipfile.ZipFile) -> str:
        """The file's name when it was written; all records lie in it."""
        found = [name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(found) != 1:
            raise ValueError("it has no data.pkl")
        return found[0].removesuffix("data.pkl")

    def _extent(self, file: BinaryIO, entry: zipfile.ZipInfo) -> Extent:
        """Where an entry's bytes begin, only the header before them says."""
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise ValueError(f"{entry.filename!r} is compressed")
        file.seek(entry.header_offset)
        header = file.read(_LOCAL_HEADER)
        if len(header) != _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise ValueError(f"{entry.filename!r} has no header")
        offset = entry.header_offset + _LOCAL_HEADER + sum(struct.unpack("<HH", header[26:30]))
        if offset + entry.file_size > self._bytes:
            raise ValueError("it has been cut short")
        return Extent(offset, entry.file_size, entry.CRC if entry.CRC or not entry.file_size else None)

    def _whole(self, name: str) -> bytes:
        nbytes = self._owner.records[name].nbytes
        if nbytes > MOST_AT_ONCE:
            raise ValueError(f"{name} has {nbytes} bytes")
        data = bytearray(nbytes)
        self._owner.read(name, 0, memoryview(data))
        return bytes(data)

    def _stored(self, said: Any) -> Any:
        storage = self._owner.storage(said, prefix="data/")
        if isinstance(storage, Storage):
            extent = self._owner.records.get(storage.record)
            if extent is None or extent.nbytes != storage.nbytes:
                raise ValueError(f"a storage of {storage.nbytes} bytes is not there: {storage.record}")
        return storage


class _OldFile:
    def __init__(self, owner: TorchFile, file: BinaryIO) -> None:
        self._owner = owner
        self._wanted: dict[str, Storage] = {}
        file.seek(0)
        _magic, _protocol, machine, self.root, names = [self._next_pickle(file) for _ in range(5)]
        if not isinstance(machine, dict) or machine.get("little_endian") is not True:
            raise ValueError("its numbers are big-endian")
        self._find_storages(file, names)

    def _next_pickle(self, file: BinaryIO) -> Any:
        begin = file.tell()
        for _ in pickletools.genops(Cautious(file)):  # type: ignore[arg-type]
            if file.tell() - begin > MOST_AT_ONCE:
                raise ValueError("its pickle is too long")
        end = file.tell()
        file.seek(begin)
        return load(file.read(end - begin), BUILDERS, self._stored)

    def _stored(self, said: Any) -> Any:
        storage = self._owner.storage(said, prefix="")
        if isinstance(storage, Storage):
            self._wanted[storage.record] = storage
        return storage

    def _find_storages(self, file: BinaryIO, names: Any) -> None:
        size = self._owner.path.stat().st_size
        at = file.tell()
        for name in names:
            if name not in self._wanted:  # of a dtype that we do not know, so where the next begins cannot be said
                raise ValueError("it has a storage of an unknown dtype")
            file.seek(at)
            numel, = struct.unpack("<q", file.read(8))
            storage = self._wanted[name]
            if numel != storage.numel or at + 8 + storage.nbytes > size:
                raise ValueError("it has been cut short")
            self._owner.records[name] = Extent(at + 8, storage.nbytes, None)
            at += 8 + storage.nbytes
        if self._wanted.keys() - self._owner.records.keys():
            raise ValueError("it lacks a storage")


