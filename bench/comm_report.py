"""Rows of times into a markdown table, with all that is needed to judge and repeat the run."""
import platform
import re
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FASTER_FROM = 1 << 20  # bytes from which ours promises to be at least as fast


def quantile(times, share):
    return sorted(times)[round(share * (len(times) - 1))]


def spread(seconds):
    return {"median": statistics.median(seconds), "p10": quantile(seconds, 0.1),
            "p90": quantile(seconds, 0.9)}


def summary(operation, dtype, full_bytes, times):
    """One row per contender, each against ours. Ratios are its time over ours: above 1, ours is
    faster. The median of ratios is taken over rounds, which share what the machine was doing."""
    return [{"operation": operation, "dtype": dtype, "bytes": full_bytes, "against": name,
             "rounds": len(theirs), "ours": spread(times["ours"]), "theirs": spread(theirs),
             "ratio_of_medians": statistics.median(theirs) / statistics.median(times["ours"]),
             "median_of_ratios": statistics.median(
                 other / ours for ours, other in zip(times["ours"], theirs))}
            for name, theirs in times.items() if name != "ours"]


def slower_rows(rows):
    """The rows that break the promise, by either ratio."""
    return [row for row in rows if row["bytes"] >= FASTER_FROM
            and min(row["ratio_of_medians"], row["median_of_ratios"]) < 1]


def size_text(full_bytes):
    return f"{full_bytes >> 20} MiB" if full_bytes >= 1 << 20 else (
        f"{full_bytes >> 10} KiB" if full_bytes >= 1 << 10 else f"{full_bytes} B")


def time_text(of_library, unit):
    scale = {"ms": 1e3, "µs": 1e6}[unit]
    median, low, high = (of_library[key] * scale for key in ("median", "p10", "p90"))
    digits = 2 if unit == "ms" else 1
    return f"{median:.{digits}f} | {low:.{digits}f}–{high:.{digits}f}"


def table(rows, unit):
    lines = [f"| operation | dtype | size | ours, {unit} | p10–p90 | against | its {unit} | p10–p90 "
             "| ratio of medians | median of ratios | rounds |",
             "|---|---|--:|--:|--:|---|--:|--:|--:|--:|--:|"]
    for row in rows:
        size = size_text(row["bytes"]) if row["bytes"] else ""
        lines.append(
            f"| {row['operation']} | {row['dtype']} | {size} | {time_text(row['ours'], unit)} "
            f"| {row['against']} | {time_text(row['theirs'], unit)} "
            f"| {row['ratio_of_medians']:.2f} | {row['median_of_ratios']:.2f} | {row['rounds']} |")
    return "\n".join(lines)


def output_of(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def machine():
    """(what, text) pairs for the head of the report."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.+)", cpuinfo)
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return [
        ("CPU", f"{model[1] if model else platform.machine()}, {cpuinfo.count('processor	')} cores"),
        ("memory", f"{int(memory[1]) / (1 << 20):.0f} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("load before the run", Path("/proc/loadavg").read_text().split()[0] + " (1 minute)"),
        ("commit", output_of("git", "describe", "--always", "--abbrev=12", "--dirty")),
        ("MPI", output_of("mpirun", "--version").splitlines()[0]),
        ("Python", platform.python_version()),
    ]


def verdict(rows):
    slower = slower_rows(rows)
    if not slower:
        return "From 1 MiB up ours is at least as fast as gloo in every row."
    named = ", ".join(f"{row['operation']} {row['dtype']} {size_text(row['bytes'])}"
                      f" (against {row['against']})" for row in slower)
    return f"**From 1 MiB up ours is slower than gloo in: {named}.**"


def report(title, facts, rows, latencies):
    head = "\n".join(f"- {what}: {text}" for what, text in facts)
    return (f"# {title}\n\n{head}\n\n{verdict(rows)}\n\n"
            "Times are of the slower rank. Ratios are the other's time over ours: above 1, ours is "
            "faster. Size: the whole buffer, of which each rank has a half. \"gloo by all-reduce\" is "
            "its all-reduce of that buffer, which sends twice the bytes and yet can be the faster way "
            "to the same sums.\n\n"
            f"{table(rows, 'ms')}\n\n## Latency\n\n{table(latencies, 'µs')}\n")
