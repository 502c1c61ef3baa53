#!/usr/bin/env python3
"""Writes what the planner says into docs/stages.md, and its pictures into docs/pictures. `make docs`.

Everything between the markers of the page comes from `zeroshard plan`; gate.test_stages_doc
compares. The machines are named in each command, so that the page is the same on every machine.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "stages.md"
BEGIN, END = "<!-- made by `make docs`: {} -->\n", "<!-- end -->\n"
RANKS = 4  # of the drawing
CELLS = 16  # of a state in it

# The ZeRO paper's example, which everybody has seen.
PAPER = "--params 7.5e9 --world-size 64 --device cuda"
PICTURE = ("--model gpt:layers=32,hidden=4096,heads=32,seq=2048,vocab=32000,checkpoint=true --world-size 8 "
           "--device-memory 4090 --host-memory 256GiB")


# A GPT's layers, hidden, heads, sequence and vocabulary; ranks, device, host memory, micro-batch.
EXAMPLES = (
    (12, 768, 12, 1024, 50257, 1, "4090", "64GiB", 8),
    (48, 1600, 25, 1024, 50257, 1, "4090", "64GiB", 4),
    (32, 4096, 32, 2048, 32000, 8, "4090", "256GiB", 1),
    (40, 5120, 40, 2048, 32000, 1, "V100", "512GiB", 1),
    (40, 5120, 40, 2048, 32000, 8, "A100", "1TiB", 4),
    (80, 8192, 64, 4096, 32000, 32, "H100", "2TiB", 1),
    (96, 12288, 96, 2048, 50257, 128, "H100", "2TiB", 1),
    (128, 25600, 160, 2048, 51200, 1024, "H100", "2TiB", 1),
)
EXAMPLE = ("--model gpt:layers={},hidden={},heads={},seq={},vocab={},checkpoint=true --world-size {} "
           "--device-memory {} --host-memory {} --micro-batch {}")


def program():
    return pathlib.Path(os.environ.get("ZEROSHARD_BUILD_DIR", ROOT / "build")) / "zeroshard"


def plan(arguments):
    """What the planner answers, where nothing was measured."""
    done = subprocess.run([program(), "plan", *arguments.split()], check=True, capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "ZEROSHARD_CALIBRATION": "/nonexistent"})
    return done.stdout


def plan_json(arguments):
    return json.loads(plan(arguments + " --json"))


def bytes_text(count, unit=1e9):
    value = count / unit
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def drawn(planned, whole, state, letter, rank):
    """A rank's part of a state: all of it, or where its own span is."""
    share = planned["device_bytes"][state] / whole["device_bytes"][state]
    cells = max(round(share * CELLS), 1)
    begin = 0 if cells == CELLS else rank * cells
    return "." * begin + letter * cells + "." * (CELLS - begin - cells)


def drawing():
    """What of each kind of state a rank holds, at each stage."""
    variants = plan_json(f"--params 1e9 --world-size {RANKS} --device cuda")["variants"][:4]
    lines = [f"{'':17}" + "  ".join(f"{name:{CELLS}}" for name in ("parameters", "gradients", "optimizer states"))]
    for planned in variants:
        for rank in range(RANKS):
            parts = [drawn(planned, variants[0], *state, rank)
                     for state in (("parameters", "p"), ("gradients", "g"), ("moments", "o"))]
            name = f"stage {planned['stage']}" if rank == 0 else ""
            lines.append(f"{name:8} rank {rank}  " + "  ".join(parts))
        lines.append("")
    return "```\n" + "\n".join(lines[:-1]) + "\n```\n"


def comparison():
    """The paper's example: memory and traffic by stage."""
    whole, halves = (plan_json(PAPER + more)["variants"] for more in (" --whole-masters", ""))
    lines = ["| | states, whole masters (the paper) | states | with buffers | on the host | sent per step |",
             "|---|---|---|---|---|---|"]
    for one, other in zip(whole, halves):
        device = other["device_bytes"]
        cells = (one["device_bytes"]["states"], device["states"], device["total"], other["host_bytes"]["total"],
                 other["sent_bytes_per_step"])
        lines.append(f"| {other['name']} | " + " | ".join(f"{bytes_text(cell)} GB" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def count_text(count):
    return f"{count / 1e12:.3g} T" if count >= 1e12 else f"{count / 1e9:.3g} B"


def examples():
    lines = ["| model | ranks | the tree | a step, estimated, and what it waits for |", "|---|---|---|---|"]
    for example in EXAMPLES:
        answer = plan_json(EXAMPLE.format(*example))
        chosen = next(each for each in answer["variants"] if each["name"] == answer["chosen"])
        words = "; ".join(line.strip() for line in answer["tree"])
        lines.append(f"| {count_text(answer['parameters'])} | {example[5]} x {example[6]}, micro-batch {example[8]} of "
                     f"{answer['sequence']} | {words} | {chosen['seconds']['step']:.3g} s, "
                     f"{chosen['seconds']['waits_for']} |")
    return "\n".join(lines) + "\n"


def tree():
    text = plan(PICTURE)
    words = text[text.index("The tree, walked:"):].split("\n\n")[0]
    return f"```\n$ zeroshard plan {PICTURE}\n...\n{words}\n...\n```\n"


def with_parts(page, parts, path=PAGE):
    for name, text in parts.items():
        begin = BEGIN.format(name)
        before, _, rest = page.partition(begin)
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"docs: the markers of '{name}' are missing in {path}; put them where it belongs")
        page = before + begin + text + end + after
    return page


def page_text():
    return with_parts(PAGE.read_text(), {"drawing": drawing(), "comparison": comparison(), "tree": tree(),
                                         "examples": examples()})


def write_picture(path):
    plan(PICTURE + f" --svg {path}")


def main():
    PAGE.write_text(page_text())
    (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
    write_picture(ROOT / "docs" / "pictures" / "plan_7b.svg")
    print("docs: wrote the planner's words into docs/stages.md, and docs/pictures/plan_7b.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
