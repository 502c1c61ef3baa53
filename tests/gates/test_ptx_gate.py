"""The PTX gate fails where a kernel's kept PTX is missing, stale or no PTX, and says when it cannot know."""
import re
import shutil
import sys
import unittest

from gate_support import ROOT, TreeTest, main

sys.path.insert(0, str(ROOT / "tools"))
import make_ptx  # noqa: E402

KERNEL = '// nvcc: --ftz=true\nextern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0F; }\n'
NVCC = make_ptx.tool("nvcc")


@unittest.skipUnless(NVCC, "there is no nvcc")
class PtxGate(TreeTest):
    def setUp(self):
        super().setUp()
        self.source = self.write("zeroshard/optim/cuda/twice.cu", KERNEL)
        self.kept = make_ptx.kept(self.source)
        self.kept.write_text(make_ptx.compile_source(NVCC, self.source, self.root))

    def test_what_the_source_gives_passes(self):
        self.assert_passes(self.gate("check_ptx.py"))
        self.assertIn(".version 7.4", self.kept.read_text())
        self.assertIn(".ftz.f32", self.kept.read_text())

    def test_a_changed_source_fails(self):
        self.source.write_text(KERNEL.replace("2.0F", "3.0F"))
        self.assert_fails(self.gate("check_ptx.py"), "twice.ptx.inc", "run tools/make_ptx.py")

    def test_other_treatment_of_subnormals_fails(self):
        self.source.write_text(KERNEL.replace("true", "false"))
        self.assert_fails(self.gate("check_ptx.py"), "twice.ptx.inc")

    def test_missing_ptx_fails(self):
        self.kept.unlink()
        self.assert_fails(self.gate("check_ptx.py"), "is missing")

    @unittest.skipUnless(make_ptx.tool("ptxas"), "there is no ptxas")
    def test_another_compilers_ptx_is_assembled_only(self):
        other = re.sub(r"release [\d.]+, V[\d.]+", "release 1.0, V1.0", self.kept.read_text())
        self.kept.write_text(other)
        done = self.gate("check_ptx.py")
        self.assert_passes(done)
        self.assertIn("were not compiled again", done.stdout)
        self.kept.write_text(other.replace("ret;", "rot;"))
        self.assert_fails(self.gate("check_ptx.py"), "sm_80")

    def test_no_kernel_at_all_fails(self):
        shutil.rmtree(self.root / "zeroshard")
        self.assert_fails(self.gate("check_ptx.py"), "nothing was checked")


if __name__ == "__main__":
    main()
