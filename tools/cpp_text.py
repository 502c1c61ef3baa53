"""Reading C++ well enough for the gates: comments and strings blanked, functions found.

No parser: house style and clang-format make a scanner over braces enough.
"""
import re
from pathlib import Path

SOURCE_FOLDERS = ("zeroshard", "cli", "python", "tests", "examples", "bench")

_NOISE = re.compile(
    r'R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # not the ' of 1'000
    r"|//[^\n]*|/\*.*?\*/",
    re.S)


def cpp_files(root):
    """All C++ files of the tree, sorted, as paths relative to root."""
    return sorted(
        path.relative_to(root)
        for folder in SOURCE_FOLDERS
        for path in (root / folder).rglob("*")
        if path.suffix in (".h", ".cpp") and "/build" not in path.relative_to(root).as_posix())


def code_only(text, keep_strings=False):
    """The text with comments (and string contents) blanked; lines stay where they are."""
    def blank(match):
        found = match[0]
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found if keep_strings else '"' + re.sub(r"[^\n]", " ", found)[1:-1] + '"'
    return _NOISE.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


_NOT_A_NAME = ("alignas", "decltype", "explicit", "noexcept", "requires", "static_assert", "operator")


def parameter_count(head):
    """Parameters of the function that a head declares; None where it declares none."""
    depth, start = 0, 0
    for i, char in enumerate(head):
        if char == "(":
            depth += 1
            if depth == 1:
                start = i
        elif char == ")":
            depth -= 1
            name = re.search(r"(operator\S+|\w+|[\])>])\s*$", head[:start])
            if depth or not name or name[1] in _NOT_A_NAME:
                continue
            inside = head[start + 1:i].strip()
            for _ in range(8):  # commas inside <>, () and {} separate no parameters
                inside = re.sub(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}", "", inside)
            return inside.count(",") + 1 if inside and inside != "void" else 0
    return None


_TYPE_HEAD = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:typedef\s+)?"
                        r"(class|struct|union|enum|namespace|extern)\b(?!.*\)\s*(?:const)?\s*$)", re.S)
_AFTER_PARAMETERS = re.compile(
    r"\)\s*(?:const|noexcept|override|final|mutable|try|&{1,2}|->[^{};]*|requires[^{};]*|\s)*$")


def functions(text):
    """Yields (line, head, lines, parameters) of every function definition and declaration.

    Declarations have lines == 0. `head` is the text before the body or the semicolon.
    """
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m[0]),
                  code_only(text), flags=re.M)
    scopes, head, start = [], "", 0  # a scope: ("outer" | "init" | "function", head, start)
    for i, char in enumerate(code):
        inside_function = any(kind == "function" for kind, _, _ in scopes)
        if char == "{":
            if inside_function:
                scopes.append(("block", "", 0))
                continue
            if _TYPE_HEAD.search(head) or not head.strip():
                kind = "outer"
            elif "(" in head and (_AFTER_PARAMETERS.search(head) or head.rstrip().endswith("}")):
                kind = "function"
            else:
                kind = "init"  # a braced initializer; the head goes on after it
            scopes.append((kind, head, start))
            if kind != "init":
                head = ""
        elif char == "}":
            kind, opened, begin = scopes.pop() if scopes else ("outer", "", i)
            if kind == "function":
                first = line_of(code, begin)
                yield first, opened.strip(), line_of(code, i) - first + 1, parameter_count(opened)
            if kind == "init":
                head += "}"
            elif not inside_function or kind == "function":
                head = ""
        elif inside_function or any(kind == "init" for kind, _, _ in scopes):
            continue
        elif char == ";":
            if "(" in head and "=" not in head.split("(")[0]:
                yield line_of(code, start), head.strip(), 0, parameter_count(head)
            head = ""
        else:
            if not head.strip():
                start, head = i, ""
            head += char
            if re.fullmatch(r"\s*(public|private|protected)\s*:", head):
                head = ""
