"""Reading pieces of many files, of which few are open at a time. For one thread."""
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, refusal

MOST_OPEN = 64
MOST_AT_ONCE = 256 * 2**20


class OpenFiles:
    def __init__(self) -> None:
        self._descriptors: "OrderedDict[Path, int]" = OrderedDict()

    def read(self, path: Path, offset: int, into: memoryview) -> None:
        """As many bytes as `into` has."""
        done = 0
        try:
            while done < len(into):
                got = os.preadv(self._descriptor(path), [into[done : done + 2**30]], offset + done)
                if got == 0:
                    raise refusal("a file of the checkpoint has been cut short", path, DAMAGED)
                done += got
        except OSError as error:
            raise unreadable(path, error) from None

    def _descriptor(self, path: Path) -> int:
        if path in self._descriptors:
            self._descriptors.move_to_end(path)
            return self._descriptors[path]
        if len(self._descriptors) >= MOST_OPEN:
            os.close(self._descriptors.popitem(last=False)[1])
        self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptors[path]

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def unreadable(path: Path, error: OSError) -> Exception:
    return refusal("a file of the checkpoint cannot be read", f"{path}, {error.strerror}", "check the path and the rights")


class Cautious:
    """A file for the standard library's readers: no more at once than an honest one makes them ask for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(min(size, MOST_AT_ONCE + 1) if size >= 0 else MOST_AT_ONCE + 1)
        if len(found) > MOST_AT_ONCE:
            raise ValueError(f"a part of it has more than {MOST_AT_ONCE} bytes")
        return found

    def readline(self) -> bytes:
        line = self._file.readline(4096)
        if not line.endswith(b"\n"):
            raise ValueError("a line of it does not end")
        return line

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
