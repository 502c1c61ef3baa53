"""What `make wheel` does to the wheel that pip has built; tests/python/test_package_wheel_slow.py builds one."""
import base64
import hashlib
import re
import shutil
import sys
import zipfile
from pathlib import Path

from gate_support import BUILD, ROOT, TreeTest, main, run

INFO = "zeroshard-0.1.0.dist-info"


class Wheel(TreeTest):
    def finish(self, program):
        wheel = self.root / "zeroshard-0.1.0-cp311-cp311-linux_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(program, "zeroshard-0.1.0.data/scripts/program")
            archive.writestr(f"{INFO}/METADATA", "Name: zeroshard\nRequires-Dist: torch>=2.11\nRequires-Dist: safetensors\n")
            archive.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
            archive.writestr(f"{INFO}/RECORD", "")
        return run(sys.executable, ROOT / "tools/finish_wheel.py", wheel, "2.11.0+cu130", self.root / "dist")

    def test_tag_dependency_and_record_are_of_what_is_inside(self):
        done = self.finish(shutil.which("true"))
        self.assert_passes(done)
        finished = Path(done.stdout.strip())
        platform = re.fullmatch(r"zeroshard-0.1.0-cp311-cp311-(manylinux_2_\d+_x86_64)\.whl", finished.name)[1]
        with zipfile.ZipFile(finished) as archive:
            self.assertIn(f"Tag: cp311-cp311-{platform}\n", archive.read(f"{INFO}/WHEEL").decode())
            self.assertIn("Requires-Dist: torch==2.11.0\nRequires-Dist: safetensors\n", archive.read(f"{INFO}/METADATA").decode())
            for line in archive.read(f"{INFO}/RECORD").decode().splitlines()[:-1]:
                name, digest, size = line.split(",")
                content = archive.read(name)
                self.assertEqual(int(size), len(content))
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("="))
            self.assertTrue(archive.getinfo("zeroshard-0.1.0.data/scripts/program").external_attr >> 16 & 0o100)

    def test_a_library_of_this_machine_is_refused(self):
        if "libfmt" not in run("readelf", "-d", BUILD / "zeroshard").stdout:
            self.skipTest("this build links no fmt library")
        self.assert_fails(self.finish(BUILD / "zeroshard"), "[wheel] zeroshard-0.1.0.data/scripts/program needs libfmt.so.",
                          "which other machines may not have")


if __name__ == "__main__":
    main()
