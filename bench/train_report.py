"""Rows of runs into ratios, a verdict and a markdown page."""
import statistics

from train_cases import CONTENDERS, FIRST_STEP_GOAL_S, OURS, REFERENCE, SHAPES, SPEED_GOALS

RSS_NOISE = 1.02  # a stage may use this much of the one before it and still count as not more


def by_mode(rows, config):
    """{mode: [its rows, one a pass]}, in the order of CONTENDERS."""
    return {contender.name: of_mode for contender in CONTENDERS
            if (of_mode := [row for row in rows if row["mode"] == contender.name
                            and row["config"] == config])}


def ratios(rows, reference):
    """Tokens per second over the reference's of the same pass; of one rank: time of a step."""
    of_pass = {row["pass"]: row for row in reference}
    return [of_pass[row["pass"]]["step_ms"] / row["step_ms"] for row in rows
            if row["pass"] in of_pass]


def summaries(rows, config):
    modes = by_mode(rows, config)
    reference = modes.get(REFERENCE.name, [])
    return {name: {"passes": len(of_mode),
                   "step_ms": spread([row["step_ms"] for row in of_mode]),
                   "tokens_per_s": statistics.median(row["tokens_per_s"] for row in of_mode),
                   "ratio": spread(ratios(of_mode, reference)),
                   "peak_rss_mb": max(row["peak_rss_mb"] for row in of_mode),
                   "first_step_s": statistics.median(row["first_step_s"] for row in of_mode)}
            for name, of_mode in modes.items()}


def spread(numbers):
    if not numbers:
        return None
    return {"median": statistics.median(numbers), "least": min(numbers), "most": max(numbers)}


def missed_speed(config, table):
    for goal in SPEED_GOALS:
        ours = table.get(OURS[goal.stage].name) if goal.config == config else None
        if ours and ours["ratio"] and ours["ratio"]["median"] < goal.least:
            yield (f"{config}, stage {goal.stage}: {ours['ratio']['median']:.3f} of "
                   f"{REFERENCE.name}, the goal is {goal.least:.2f}")


def missed_memory(config, table):
    peers = {name: row["peak_rss_mb"] for name, row in table.items() if not is_ours(name)
             and not is_floor(name)}
    stages = [(c.stage, table[c.name]["peak_rss_mb"]) for c in OURS if c.name in table]
    for stage, mb in stages:
        for name, theirs in peers.items():
            if mb >= theirs:
                yield f"{config}, stage {stage}: peak {mb:.0f} MB, {name} has {theirs:.0f}"
    for (stage, mb), (after, mb_after) in zip(stages, stages[1:]):
        if mb_after > mb * RSS_NOISE:
            yield f"{config}: peak {mb_after:.0f} MB at stage {after}, {mb:.0f} at stage {stage}"
    if len(stages) == 4 and stages[3][1] >= stages[0][1]:
        yield f"{config}: the peak at stage 3 is not below that at stage 0"


def missed_start(config, table):
    for contender in OURS:
        row = table.get(contender.name)
        if row and row["first_step_s"] >= FIRST_STEP_GOAL_S:
            yield (f"{config}, stage {contender.stage}: first step after {row['first_step_s']:.2f} s, "
                   f"the goal is {FIRST_STEP_GOAL_S:.0f} s")


def is_ours(name):
    return any(c.ours for c in CONTENDERS if c.name == name)


def is_floor(name):
    return any(c.is_floor for c in CONTENDERS if c.name == name)


def missed_goals(rows):
    """A sentence for each goal that was missed. What did not run misses nothing."""
    missed = []
    for config in SHAPES:
        table = summaries(rows, config)
        missed += [*missed_speed(config, table), *missed_memory(config, table),
                   *missed_start(config, table)]
    return missed


def number(of_mode, digits):
    if of_mode is None:
        return "- | -"
    median, least, most = (of_mode[key] for key in ("median", "least", "most"))
    return f"{median:.{digits}f} | {least:.{digits}f} to {most:.{digits}f}"


def floor_lines(table):
    """How near ours comes to computing alone."""
    alone, lines = table.get("ours, 1 rank"), []
    for contender in OURS:
        row = table.get(contender.name)
        if alone and row:
            share = alone["step_ms"]["median"] / row["step_ms"]["median"]
            lines.append(f"stage {contender.stage} {share:.2f}")
    return "Of our compute floor (one rank's step time over two ranks'): " + ", ".join(lines) + "." \
        if lines else ""


def section(config, table):
    shape = SHAPES[config]
    lines = [f"## {config}: `{shape.model()}`, micro-batch {shape.micro_batch}", "",
             "| mode | step, ms | passes from to | tok/s | ratio | passes from to | peak RSS, MB "
             "| first step, s |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for name, row in table.items():
        lines.append(f"| {name} | {number(row['step_ms'], 1)} | {row['tokens_per_s']:.0f} "
                     f"| {number(row['ratio'], 2)} | {row['peak_rss_mb']:.0f} "
                     f"| {row['first_step_s']:.2f} |")
    return "\n".join(lines + ["", floor_lines(table)]).rstrip() + "\n"


def verdict(rows):
    if not any(is_ours(row["mode"]) for row in rows):
        return "Ours did not run: these are the peers alone."
    missed = missed_goals(rows)
    return "All goals of the modes that ran are met." if not missed else (
        "**Goals missed:**\n\n" + "\n".join(f"- {sentence}" for sentence in missed))


def report(facts, rows, skipped):
    head = "\n".join(f"- {what}: {text}" for what, text in facts)
    left_out = "".join(f"- skipped: {sentence}\n" for sentence in skipped)
    tables = "\n".join(section(config, summaries(rows, config)) for config in SHAPES
                       if any(row["config"] == config for row in rows))
    return (f"# Training against DDP, FSDP2 and DeepSpeed on CPU ranks\n\n{head}\n{left_out}\n"
            f"{verdict(rows)}\n\n"
            f"Two ranks of one thread, fp32, AdamW, clip 1.0. A ratio is the step time of "
            f"{REFERENCE.name} over the mode's, in the same pass: above 1 is faster. For one rank it "
            f"is the compute floor against {REFERENCE.name}. Medians over passes, with the least and "
            f"the most; peak RSS is the worst rank of any pass.\n\n{tables}")
