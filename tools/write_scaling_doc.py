#!/usr/bin/env python3
"""Writes what the planner says of many GPUs into docs/scaling.md. `make docs`.

Everything between the markers of the page comes from `zeroshard plan`; gate.test_scaling_doc
compares. Nothing of it was measured: the rates are those that the planner assumes of an H100.
"""
import json
import sys
import tempfile

from write_stages_doc import ROOT, plan, plan_json, with_parts

PAGE = ROOT / "docs" / "scaling.md"
CLUSTERS = (8, 64, 512)
WORDS = "--model gpt:layers={},hidden={},heads={},seq={},vocab=32000,checkpoint=true --world-size {} --ranks-per-node 8 " \
        "--device-memory H100"
# Layers, hidden, heads: 6.7 and 65 billion parameters, and a small one.
MODELS = {"7B": (32, 4096, 32), "70B": (80, 8192, 64)}
SMALL = (24, 2048, 16)
EXAMPLE = WORDS.format(*MODELS["70B"], 4096, 64)


def asked(shape, sequence, ranks, more="", zero=None):
    """The plan's stages 1 to 3 without offload; `zero`: what a configuration says of sizes."""
    words = WORDS.format(*shape, sequence, ranks) + more
    if zero is None:
        answer = plan_json(words)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"bf16": {"enabled": True}, "zero_optimization": zero}, file)
            file.flush()
            answer = plan_json(f"{words} --config {file.name}")
    return answer, {each["stage"]: each for each in answer["variants"] if not each["offload_optimizer"]}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def ms(seconds):
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def efficiency(planned):
    seconds = planned["seconds"]
    return f"{1 - seconds['network_not_hidden'] / seconds['step']:.0%}"


def millions(planned, key):
    return f"{planned[key] / 1e6:.0f} M" if key in planned else ""


def rings():
    rows = []
    for ranks in CLUSTERS:
        one = asked(MODELS["7B"], 4096, ranks)[0]["collective"]
        shared = asked(MODELS["7B"], 4096, ranks, " --nics-per-node 1")[0]["collective"]
        rows.append([str(ranks), f"{one['latency_seconds'] * 1e6:.0f} us", f"{one['bytes_per_second'] / 1e9:.0f} GB/s",
                     f"{shared['bytes_per_second'] / 1e9:.0f} GB/s"])
    return table(("GPUs", "alpha", "bandwidth, a card for each GPU", "one card for each host"), rows)


def clusters():
    rows = []
    for name, shape in MODELS.items():
        for ranks in CLUSTERS:
            stages = asked(shape, 4096, ranks)[1]
            for stage in (1, 2, 3):
                planned, seconds = stages[stage], stages[stage]["seconds"]
                computed = seconds["step"] - seconds["network_not_hidden"]
                memory = f"{planned['device_peak_bytes'] / 2**30:.0f} GiB"
                rows.append([f"{name}, {ranks} GPUs, stage {stage}", memory if planned["fits"] else f"{memory}, too much",
                             f"{planned['sent_bytes_per_step'] / 1e9:.1f} GB", str(planned["collectives_per_step"]),
                             ms(computed), ms(seconds["network"]), ms(seconds["network_not_hidden"]), ms(seconds["step"]),
                             efficiency(planned), millions(planned, "reduce_bucket_size"),
                             millions(planned, "stage3_prefetch_bucket_size")])
    return table(("", "memory", "sent", "collectives", "computed, ms", "network, ms", "not hidden, ms", "step, ms",
                  "efficiency", "bucket", "ahead"), rows)


def tokens():
    rows = []
    for count in (512, 1024, 2048, 4096, 8192):
        row = [str(count)]
        for shape in MODELS.values():
            row += [efficiency(asked(shape, count, ranks)[1][3]) for ranks in CLUSTERS]
        rows.append(row)
    return table(("tokens of a GPU in a micro-step", *(f"{name}, {ranks}" for name in MODELS for ranks in CLUSTERS)), rows)


def sizes():
    """Other sizes than the chosen ones."""
    cases = [("as chosen", {}), ("a bucket for each unit", {"reduce_bucket_size": 1}),
             ("buckets of 500 M", {"reduce_bucket_size": 500_000_000}),
             ("nothing ahead", {"stage3_prefetch_bucket_size": 0}), ("1 element, so one unit, ahead", {"stage3_prefetch_bucket_size": 1}),
             ("1 G ahead", {"stage3_prefetch_bucket_size": 10**9}),
             ("at most 1 G gathered, as ds_config.json's default", {"stage3_max_live_parameters": 10**9})]
    shapes = (("1.3B", SMALL), ("7B", MODELS["7B"]), ("70B", MODELS["70B"]))
    rows = []
    for name, zero in cases:
        cells = [asked(shape, 4096, ranks, zero={"stage": 3} | zero)[1][3]["seconds"]["step"]
                 for _, shape in shapes for ranks in (64, 512)]
        rows.append([name, *(ms(cell) for cell in cells)])
    return table(("stage 3, ms of a step", *(f"{name}, {ranks}" for name, _ in shapes for ranks in (64, 512))), rows)


def units():
    rows = []
    for count in (16, 32, 64, 128):
        cells = [str(count)]
        for ranks in CLUSTERS:
            answer = plan_json(f"--params 7e9 --layers {count} --seq 4096 --checkpoint --world-size {ranks} --ranks-per-node 8 "
                               "--device-memory H100")
            planned = next(each for each in answer["variants"] if each["name"] == "stage 3")
            cells += [str(planned["collectives_per_step"]), ms(planned["seconds"]["network"]), efficiency(planned)]
        rows.append(cells)
    head = [f"{ranks} GPUs: {what}" for ranks in CLUSTERS for what in ("collectives", "network, ms", "efficiency")]
    return table(("equal units", *head), rows)


def example():
    text = plan(EXAMPLE)
    times = text[text.index("Time of a step"):].split("\nThe tree")[0]
    return f"```\n$ zeroshard plan {EXAMPLE}\n...\n{times.rstrip()}\n...\n```\n"


def page_text():
    return with_parts(PAGE.read_text(), {"rings": rings(), "clusters": clusters(), "tokens": tokens(), "sizes": sizes(),
                                         "units": units(), "example": example()}, PAGE)


if __name__ == "__main__":
    PAGE.write_text(page_text())
    print("docs: wrote the planner's words into docs/scaling.md")
    sys.exit(0)
