"""The commands of a page, and what the page says they print.

A command is a line of a code block that starts `zeroshard`, behind a `$ ` or not, with its
continuation lines. Behind a `$ `, what follows is its output:

    $ zeroshard plan --params 1e9
    1 B parameters on 1 rank: ...

In an output `...` stands for any text in a line, and alone in a line for any lines.
"""
import re
from dataclasses import dataclass, field

COMMAND = re.compile(r"^(\$ )?(zeroshard .*)$")


@dataclass
class Command:
    page: str
    words: str  # as a shell reads them
    printed: list = field(default_factory=list)


def code_blocks(text):
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands_of(page, text):
    found = []
    for block in code_blocks(text):
        has_output = False
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            command = COMMAND.match(line)
            if command:
                has_output = bool(command[1])
                found.append(Command(page, re.sub(r"\s+#.*", "", command[2])))
            elif line.startswith("$ "):
                has_output = False
            elif has_output:
                found[-1].printed.append(line)
    return found


def matches(promised, line):
    pattern = ".*".join(re.escape(part) for part in promised.split("..."))
    return re.fullmatch(pattern, line) is not None


def missing_line(promised, printed):
    """The first promised line that does not come, in this order, among the printed ones; or None."""
    rest = iter(printed)
    for line in promised:
        if line.strip() != "..." and not any(matches(line, other) for other in rest):
            return line
    return None


def difference(promised, printed):
    """One sentence where the output is not the promised one, line by line; or None."""
    if "..." in promised:
        line = missing_line(promised, printed)
        return None if line is None else f"'{line}' is not among, or not in order:\n" + "\n".join(printed)
    for wanted, line in zip(promised, printed):
        if not matches(wanted, line):
            return f"it prints '{line}' where the page says '{wanted}'"
    if len(promised) != len(printed):
        return f"it prints {len(printed)} lines where the page has {len(promised)}:\n" + "\n".join(printed)
    return None
