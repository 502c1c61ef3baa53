"""`make install` and `make uninstall`: put build/ below a prefix, and take it away again.

The prefix itself keeps the list of what came (share/zeroshard/manifest.json): files, and the
folders that did not exist before. So uninstall works with another build, or none, and leaves
folders alone that were there before us.

  python3 tools/install.py install|uninstall PREFIX [--build FOLDER]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = Path("share/zeroshard/manifest.json")


def die(sentence):
    print(sentence, file=sys.stderr)
    sys.exit(1)


def cmake_install(build, prefix):
    done = subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        die(f"install: cmake --install failed: {done.stderr.strip() or done.stdout.strip()}")


def install(prefix, build):
    if not (build / "cmake_install.cmake").is_file():
        die(f"install: {build} holds no build; run 'make build' first")
    # A trial run into an empty folder says which files will come.
    with tempfile.TemporaryDirectory() as trial:
        cmake_install(build, trial)
        files = sorted(path.relative_to(trial) for path in Path(trial).rglob("*") if path.is_file())
    files.append(MANIFEST)
    folders = {prefix / parent for file in files for parent in file.parents} | set(prefix.parents)
    new = {str(folder) for folder in folders if not folder.exists()}
    old = load(prefix)
    try:
        (prefix / MANIFEST).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        die(f"install: cannot write below {prefix} ({error.strerror}); "
            f"run: sudo make install PREFIX={prefix}, or choose another PREFIX")
    manifest = {"files": sorted({str(file) for file in files} | set(old["files"])),
                "folders": sorted(new | set(old["folders"]))}
    # Written before the files: an interrupted installation can still be taken away.
    (prefix / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    cmake_install(build, prefix)
    print(f"install: {len(files)} files below {prefix}")


def load(prefix):
    try:
        return json.loads((prefix / MANIFEST).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {"files": [], "folders": []}


def uninstall(prefix):
    manifest = load(prefix)
    if not manifest["files"]:
        die(f"uninstall: nothing of ZeroShard is below {prefix}; name its place with PREFIX=...")
    try:
        for name in manifest["files"]:
            (prefix / name).unlink(missing_ok=True)
        for folder in sorted(manifest["folders"], key=len, reverse=True):
            if os.path.isdir(folder) and not os.listdir(folder):  # others' files keep it
                os.rmdir(folder)
    except OSError as error:
        die(f"uninstall: cannot remove {error.filename} ({error.strerror}); "
            f"run: sudo make uninstall PREFIX={prefix}")
    print(f"uninstall: removed {len(manifest['files'])} files below {prefix}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["install", "uninstall"])
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    args = parser.parse_args()
    prefix = args.prefix.absolute()
    install(prefix, args.build) if args.verb == "install" else uninstall(prefix)


if __name__ == "__main__":
    main()
