"""What a build folder compiles, file by file, also where it compiles several as one."""
import json
import re
from pathlib import Path

JOINED = re.compile(r"/Unity/unity_\d+_cxx\.cxx$")
INCLUDED = re.compile(r'^#include "([^"]+)"', re.M)


def compile_commands(database):
    """{source: command} of a compile_commands.json."""
    found = {}
    for entry in json.loads(Path(database).read_text()):
        source = Path(entry["directory"], entry["file"])
        sources = INCLUDED.findall(source.read_text()) if JOINED.search(str(source)) else [source]
        found.update({Path(each).resolve(): entry.get("command", "") for each in sources})
    return found
