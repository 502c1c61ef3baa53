"""The package as it lies in build/python and as it goes into a wheel; what importing it costs and says."""
import ast
import re
import statistics
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT, STAGE

SOURCE = ROOT / "python/zeroshard"
PACKAGE = STAGE / "zeroshard"
VERSION = re.search(r"project\(zeroshard VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def python(code, **options):
    """Runs code in a fresh interpreter; returns it with both streams in .stdout."""
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


def printed(code):
    done = python(code)
    assert done.returncode == 0, done.stdout
    return done.stdout.split()


def source_files():
    return {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


def test_stage_links_every_entry_of_the_source():
    for name in source_files():
        assert (PACKAGE / name).resolve() == (SOURCE / name).resolve()
    assert [path for path in PACKAGE.iterdir() if not path.exists()] == []


def test_imported_package_is_the_staged_one_and_knows_what_it_was_built_for():
    file, module, version, built_for, torch = printed(
        "import torch, zeroshard as z, zeroshard._C as c, zeroshard._build_info as b\n"
        "print(z.__file__, c.__file__, b.version, b.torch_version, torch.__version__)")
    assert file == str(PACKAGE / "__init__.py")
    assert module.startswith(str(PACKAGE / "_C."))
    assert version == VERSION
    assert built_for == torch


def test_types_are_declared():
    assert (PACKAGE / "py.typed").is_file()
    stubs = list(SOURCE.rglob("*.pyi"))
    assert SOURCE / "_C.pyi" in stubs
    for stub in stubs:
        ast.parse(stub.read_text(), str(stub))


def test_stub_of_the_extension_names_what_the_extension_has():
    declared = set()
    for node in ast.parse((SOURCE / "_C.pyi").read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            declared.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            declared.add(node.target.id)
    real = set(printed("import zeroshard._C; print(*vars(zeroshard._C))"))
    public = {name for name in real if not name.startswith("_")}
    assert public - declared == set(), "in _C but not in _C.pyi"
    assert declared - real == set(), "in _C.pyi but not in _C"


def test_wheel_holds_the_whole_package_and_its_command(tmp_path):
    # Without CMake: what is compiled, test_package_install_slow.py looks at.
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps",
         "--config-settings=wheel.cmake=false", "--wheel-dir", tmp_path, ROOT],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    wheel, = tmp_path.glob(f"zeroshard-{VERSION}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name.removeprefix("zeroshard/") for name in archive.namelist()}
        commands = archive.read(f"zeroshard-{VERSION}.dist-info/entry_points.txt").decode()
    # scikit-build-core drops every folder *.dist-info; *.egg-info/PKG-INFO says the same to importlib.
    assert source_files() - names == set()
    for module, function in re.findall(r"= *([\w.]+):(\w+)", commands):
        printed(f"import {module}; assert callable({module}.{function})")
    assert re.findall(r"^([\w-]+) *=", commands, re.M) == ["zs-deepspeed"]


def test_import_costs_little_beside_torch():
    # Modules come when they are used, so this uses one. Not wall time: other tests run beside this.
    code = ("import time, torch; start = time.process_time(); import zeroshard; zeroshard.initialize\n"
            "print(time.process_time() - start)")
    seconds = statistics.median(float(printed(code)[0]) for _ in range(5))
    assert seconds < 0.3


def test_another_torch_is_refused_in_a_sentence():
    done = python("import torch; torch.__version__ = torch.version.__version__ = '2.10.7'\nimport zeroshard")
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    built_for, = printed("import zeroshard._build_info as b; print(b.torch_version)")
    assert "2.10.7" in last and built_for in last
    assert "undefined symbol" not in done.stdout


def test_no_torch_is_said_in_a_sentence():
    done = python("import sys; sys.modules['torch'] = None\nimport zeroshard")
    assert done.returncode == 1
    assert re.match(r"(ImportError|ModuleNotFoundError): .*torch", done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("options, variables, code, words", [
    (["-S"], {}, 77, "SKIPPED: .* has no torch, .*tools/setup.sh python"),  # -S: without site-packages
    ([], {"ZEROSHARD_BUILD_DIR": "/nonexistent"}, 1, "has no _C: run 'make build' first"),
])
def test_run_pytest_skips_without_packages_and_fails_without_the_extension(
        monkeypatch, options, variables, code, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, *options, ROOT / "tests/python/run_pytest.py", __file__],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == code, done.stdout
    assert re.search(words, done.stdout), done.stdout
