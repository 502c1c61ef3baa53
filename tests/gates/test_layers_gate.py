"""The layer gate passes a good tree and fails on each kind of bad include."""
from gate_support import TreeTest, main


class LayersGate(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("zeroshard/base/error.h", "#include <string>\n")

    def check(self, name, text, *expected):
        self.write(name, text)
        done = self.gate("check_layers.py")
        if expected:
            self.assert_fails(done, name, *expected)
        else:
            self.assert_passes(done)

    def test_includes_that_point_down_pass(self):
        self.check("zeroshard/layout/span.h", '#include "zeroshard/base/error.h"\n')
        self.check("zeroshard/config/config.h", '#include "zeroshard/layout/span.h"\n')
        self.check("zeroshard/config/all.h", '#include "zeroshard/engine/options.h"\n')
        self.check("zeroshard/engine/options.h", '#include "zeroshard/optim/options.h"\n')
        self.check("zeroshard/models/gpt.h", '#include "zeroshard/engine/unit.h"\n')
        self.check("cli/main.cpp", '#include "cli/args.h"\n#include "zeroshard/planner/plan.h"\n')

    def test_upward(self):
        self.check("zeroshard/base/log.h", '#include "zeroshard/layout/span.h"\n',
                   "base must not include zeroshard/layout/span.h")

    def test_sibling(self):
        self.check("zeroshard/optim/adam.cpp", '#include "zeroshard/comm/world.h"\n',
                   "optim must not include")

    def test_engine_knows_no_config(self):
        self.check("zeroshard/engine/engine.cpp", '#include "zeroshard/config/config.h"\n',
                   "engine must not include")

    def test_models_see_only_the_unit_header(self):
        self.check("zeroshard/models/gpt.h", '#include "zeroshard/engine/engine.h"\n',
                   "models must not include")

    def test_options_count_as_base(self):
        self.check("zeroshard/engine/options.h", '#include "zeroshard/layout/span.h"\n',
                   "base must not include")

    def test_options_are_free_of_torch(self):
        self.check("zeroshard/engine/options.h", "#include <ATen/core/Tensor.h>\n", "free of torch")

    def test_angle_brackets_count_too(self):
        self.check("zeroshard/base/log.h", "#include <zeroshard/layout/span.h>\n", "base must not")

    def test_torch_in_a_torch_free_level(self):
        for folder in ("zeroshard/base", "zeroshard/layout", "zeroshard/planner", "cli"):
            self.check(f"{folder}/bad.cpp", "#include <c10/core/Device.h>\n", "free of torch")

    def test_the_costly_torch_header(self):
        self.check("zeroshard/engine/engine.cpp", "#include <torch/torch.h>\n", "14 s")

    def test_torch_where_it_may_be(self):
        self.check("zeroshard/engine/engine.cpp", "#include <ATen/core/Tensor.h>\n")
        self.check("tests/support/model.cpp", "#include <torch/torch.h>\n")

    def test_getenv(self):
        self.check("zeroshard/base/env.cpp", 'auto x = std::getenv("A");\n')
        self.check("zeroshard/base/log.cpp", "// getenv is elsewhere\n")
        self.check("zeroshard/layout/a.cpp", 'auto x = getenv("A");\n', ":1:", "base/env.h")

    def test_stage_numbers(self):
        self.check("zeroshard/planner/a.cpp", "bool b = stage >= 2;\n")
        self.check("zeroshard/tier/a.cpp", 'log("stage == 3");  // stage == 3\n')
        self.check("zeroshard/engine/a.cpp", "int x;\nif (options.stage==3) {}\n", ":2:", "placement")

    def test_unknown_folder(self):
        self.check("zeroshard/utils/a.h", "\n", "'utils' is not in tools/layers.toml")
        self.check("zeroshard/base/a.h", '#include "zeroshard/misc/b.h"\n', "'misc'")

    def test_includes_start_at_the_root(self):
        self.check("zeroshard/base/a.cpp", '#include "error.h"\n', "repository root")

    def test_umbrella_is_for_users(self):
        for header in ("zeroshard/zeroshard.h", "zeroshard/core.h"):
            self.check("zeroshard/engine/a.cpp", f'#include "{header}"\n', "umbrella")

    def test_library_includes_no_test(self):
        self.check("zeroshard/base/a.cpp", '#include "tests/support/a.h"\n', "without its tests")

    def test_empty_tree_fails(self):
        (self.root / "zeroshard/base/error.h").unlink()
        self.assert_fails(self.gate("check_layers.py"), "nothing was checked")


if __name__ == "__main__":
    main()
