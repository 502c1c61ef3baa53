"""Gate: includes point down only, as tools/layers.toml allows, and some texts have one home.

  python3 tools/check_layers.py [--root TREE]      exit 0 fine, 1 with one line per offence
"""
import argparse
import re
import sys
import tomllib
from pathlib import Path

from cpp_text import code_only, cpp_files, line_of

HERE = Path(__file__).resolve().parent
INCLUDE = re.compile(r'^[ \t]*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
UMBRELLAS = ("zeroshard/zeroshard.h", "zeroshard/core.h")


def level_of(path):
    """The level of a file or of an included path; None where the layer table says nothing."""
    parts = path.split("/")
    if parts[-1] == "options.h" and parts[0] == "zeroshard":
        return "base"
    if parts[0] == "zeroshard" and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] in ("cli", "python") and len(parts) > 1 else None


def allowed(includer, included, levels):
    level, target = level_of(includer), level_of(included)
    if level is None or target is None or target == "base" or level == target:
        return True
    return target in levels[level] or included.removeprefix("zeroshard/") in levels[level]


def include_offences(name, text, levels):
    level = level_of(name)
    if level is not None and level not in levels:
        yield 1, f"folder '{level}' is not in tools/layers.toml"
        return
    for match in INCLUDE.finditer(text):
        quote, included = match[1], match[2]
        line = line_of(text, match.start(2))
        target = level_of(included)
        if included in UMBRELLAS and level is not None:
            yield line, "includes an umbrella header, which is for users of the library"
        elif target is not None and target not in levels:
            yield line, f"includes {included}: folder '{target}' is not in tools/layers.toml"
        elif not allowed(name, included, levels):
            yield line, f"{level} must not include {included}"
        elif quote == '"' and level is not None and "/" not in included:
            yield line, f'"{included}": includes are written from the repository root'


def matches(name, prefixes):
    return any(name.endswith(p[1:]) if p.startswith("*") else name.startswith(p) for p in prefixes)


def rule_offences(name, text, rules):
    for rule in rules:
        permitted = matches(name, rule["only"]) if "only" in rule else not matches(name, rule["not_in"])
        if permitted or matches(name, rule.get("except", [])):
            continue
        for match in re.finditer(rule["pattern"], text):
            yield line_of(text, match.start()), f"'{match[0].strip()}': {rule['because']}"


def searchable(text):
    """Code without comments and strings, but with the names that #include lines give in quotes."""
    plain, with_strings = code_only(text), code_only(text, keep_strings=True)
    return "\n".join(full if full.lstrip().startswith("#") else bare
                     for bare, full in zip(plain.split("\n"), with_strings.split("\n")))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=HERE.parent)
    parser.add_argument("--table", type=Path, default=HERE / "layers.toml")
    args = parser.parse_args()
    table = tomllib.loads(args.table.read_text())
    offences, count = [], 0
    for path in cpp_files(args.root.resolve()):
        count += 1
        name, text = path.as_posix(), searchable((args.root / path).read_text())
        for line, what in [*include_offences(name, text, table["levels"]),
                           *rule_offences(name, text, table["rule"])]:
            offences.append(f"{name}:{line}: {what}")
    print(*offences, sep="\n", end="\n" if offences else "")
    if not count:
        offences.append("no files")
        print(f"layers: no C++ file under {args.root}, so nothing was checked")
    print(f"layers: {count} files, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
