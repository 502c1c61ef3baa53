"""The engine's own cost per unit and step, in instructions: callgrind counts, whatever else the
machine does. Writes bench/results/engine_cost_DATE.md.

  cmake --build build --target engine_cost
  python3 bench/engine_cost.py build/bench/engine_cost
"""
import datetime
import pathlib
import re
import subprocess
import sys

BLOCKS, STEPS = (4, 12), (2, 6)


def instructions(program, kind, blocks, steps):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
                           kind, str(blocks), str(steps)], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def per_block_and_step(program, kind):
    """The mixed difference: start-up, other units and other steps cancel."""
    count = {(b, s): instructions(program, kind, b, s) for b in BLOCKS for s in STEPS}
    (few, many), (short, long) = BLOCKS, STEPS
    mixed = count[many, long] - count[many, short] - count[few, long] + count[few, short]
    return mixed / ((many - few) * (long - short))


def main():
    program = sys.argv[1]
    figures = {kind: per_block_and_step(program, kind) for kind in ("plain", "engine")}
    today = datetime.date.today().isoformat()
    text = f"""# What the engine itself costs

Instructions of one more unit (a block of 6 parameters, width 8) in one more step: forward, backward, update.
One rank, stage 3, one thread; counted by callgrind, so the machine's load does not matter.

| what | instructions per unit and step |
|---|--:|
| plain torch, `torch::optim::AdamW` | {figures["plain"]:,.0f} |
| with the engine | {figures["engine"]:,.0f} |
| difference | {figures["engine"] - figures["plain"]:+,.0f} |

Command: `python3 bench/engine_cost.py build/bench/engine_cost`, {today}.
"""
    path = pathlib.Path(__file__).parent / "results" / f"engine_cost_{today}.md"
    path.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
