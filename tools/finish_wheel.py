"""Makes a wheel that `pip wheel` has built fit to be installed elsewhere, or says why it cannot be.

  python3 tools/finish_wheel.py WHEEL TORCH_VERSION FOLDER    writes FOLDER/<name>.whl, prints its path

Its programs may need nothing of this machine but what every Linux has, and torch. Its tag names the
oldest glibc that has all the symbols they use, so that pip refuses it on an older system, and it
depends on just the torch that it was built for, so that pip brings that one.
"""
import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux-[\w-]+)\.so\.\d+"
                        r"|lib(torch|torch_cpu|torch_python|c10)\.so")


def is_program(content):
    return content.startswith(b"\x7fELF")


def readelf(option, content):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return subprocess.run(["readelf", "--wide", option, file.name], check=True, capture_output=True,
                              text=True).stdout


def foreign_libraries(content):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", content))
    return [name for name in needed if not EVERYWHERE.fullmatch(name)]


def absolute_places(content):
    paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", readelf("--dynamic", content))
    return [place for path in paths for place in path.split(":") if place.startswith("/")]


def glibc_of(content):
    versions = re.findall(r"GLIBC_2\.(\d+)", readelf("--version-info", content))
    return max(map(int, versions), default=0)


def refuse_foreign(programs):
    for name, content in programs.items():
        for word, found in (("needs", foreign_libraries(content)), ("looks into", absolute_places(content))):
            if found:
                sys.exit(f"[wheel] {name} {word} {', '.join(found)}, which other machines may not have; "
                         "build it with ZEROSHARD_PORTABLE, as `make wheel` does")


def with_tag(text, platform):
    return re.sub(r"(?m)^(Tag: [^-\n]+-[^-\n]+-).*$", rf"\g<1>{platform}", text.decode()).encode()


def with_torch(text, version):
    return re.sub(r"(?m)^Requires-Dist: torch\b.*$", f"Requires-Dist: torch=={version}", text.decode()).encode()


def record_of(files, name):
    lines = []
    for path, (_, content) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{name},,"]) + "\n"


def write(path, files, record):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for info, content in files.values():
            out.writestr(info, content, zipfile.ZIP_DEFLATED)
        out.writestr(record, record_of(files, record))


def finish(wheel, torch_version, folder):
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: (info, archive.read(info)) for info in archive.infolist()}
    programs = {name: content for name, (_, content) in files.items() if is_program(content)}
    refuse_foreign(programs)
    platform = f"manylinux_2_{max(map(glibc_of, programs.values()))}_{wheel.stem.split('linux_', 1)[1]}"
    for name, (info, content) in files.items():
        if name.endswith(".dist-info/WHEEL"):
            files[name] = (info, with_tag(content, platform))
        if name.endswith(".dist-info/METADATA"):
            files[name] = (info, with_torch(content, torch_version))
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    folder.mkdir(parents=True, exist_ok=True)
    finished = folder / f"{'-'.join(wheel.stem.split('-')[:-1])}-{platform}.whl"
    write(finished, files, record)
    return finished


if __name__ == "__main__":
    print(finish(Path(sys.argv[1]), sys.argv[2].partition("+")[0], Path(sys.argv[3])))
