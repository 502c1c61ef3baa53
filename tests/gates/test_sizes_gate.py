"""The size gate counts files, functions and parameters, and fails beyond each cap."""
from gate_support import TreeTest, main


def body(lines):
    return "void f() {\n" + "  work();\n" * (lines - 2) + "}\n"


class SizesGate(TreeTest):
    def check(self, name, text, *expected):
        self.write(name, text)
        done = self.gate("check_sizes.py")
        if expected:
            self.assert_fails(done, name, *expected)
        else:
            self.assert_passes(done)

    def test_files(self):
        for name, cap in (("zeroshard/base/a.h", 300), ("zeroshard/base/a.cpp", 500),
                          ("tests/base/test_a.cpp", 600), ("CMakeLists.txt", 150),
                          ("zeroshard/base/CMakeLists.txt", 30), ("tools/a.py", 150)):
            self.check(name, "\n" * cap)
            self.check(name, "\n" * (cap + 1), f"of {cap + 1} lines, the cap is {cap}")
            (self.root / name).unlink()

    def test_functions(self):
        self.check("cli/a.cpp", body(100))
        self.check("cli/a.cpp", "\n" + body(101), "cli/a.cpp:2", "function of 101 lines")

    def test_functions_in_a_class_in_a_namespace(self):
        text = "namespace a {\nclass B {\n public:\n  B() : x_{1} {\n" + "  w();\n" * 100 + "  }\n};\n}\n"
        self.check("cli/a.cpp", text, "cli/a.cpp:4", "function of 102 lines")

    def test_long_tables_are_no_functions(self):
        rows = '    {"key", make(1, 2)},\n' * 120
        self.check("cli/a.cpp", "const Row kRows[] = {\n" + rows + "};\n")

    def test_braces_in_strings_and_comments_are_no_code(self):
        self.check("cli/a.cpp", 'void f() {\n  say("}{{");  // {{{\n  say(R"({{)");\n}\n' + body(99))

    def test_parameters(self):
        eight = ", ".join(f"int a{i}" for i in range(8))
        self.check("cli/a.h", f"void f({eight});\n")
        self.check("cli/a.h", f"void f({eight}, std::map<int, int> m);\n", "declaration of 9 parameters")
        self.check("cli/a.h", f"class A {{\n  explicit A({eight}, int z) {{}}\n}};\n", "cli/a.h:2", "9 param")

    def test_calls_have_no_cap(self):
        self.check("cli/a.cpp", "void f() {\n  g(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);\n}\n")

    def test_soft_caps_are_advice(self):
        self.write("zeroshard/base/a.h", "\n" * 250)
        done = self.gate("check_sizes.py", "--verbose")
        self.assert_passes(done)
        self.assertIn("better under 200", done.stdout)

    def test_empty_tree_fails(self):
        self.assert_fails(self.gate("check_sizes.py"), "nothing was checked")


if __name__ == "__main__":
    main()
