"""This process's memory on the host, and what the machine has left, as Linux counts them."""
import pathlib


def _bytes(file, word):
    for line in pathlib.Path(file).read_text().splitlines():
        if line.startswith(word + ":"):
            return int(line.split()[1]) * 1024
    return 0


def peak_bytes():
    return _bytes("/proc/self/status", "VmHWM")


def available_bytes():
    return _bytes("/proc/meminfo", "MemAvailable")
