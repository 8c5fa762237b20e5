"""Imports go one way along the line of subsystems, and the program answers before TensorFlow is there."""

from __future__ import annotations

import ast
import pathlib
import re
import resource
import subprocess
import sys

import pytest

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent
DOCS = PACKAGE.parent / "docs"

LINE = "base < config < cluster < data < modeling < engine < saved < observe < training < commands < compat"
"""A module imports from its own subsystem and from those before it.  Nothing imports `models`, the shipped models."""

ORDER = LINE.split(" < ")
FACES = {"embeddings", "features", "losses", "metrics", "negatives", "optimizers", "train", "estimator"}
FACES |= {"keras", "serving"}
"""Modules at the top that hand public names on, with `__init__` and `__main__`; no subsystem imports them."""

PUBLIC = {"data", "embeddings", "features", "losses", "metrics", "models", "negatives", "optimizers"}
"""What the shipped models may import, as any user's model."""


def name_of(path):
    """`engine.step.unroll`; a package is named like its `__init__`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def subsystem_of(name):
    return name.partition(".")[0]


def imported_by(source):
    """The modules that a source imports, wherever in it, by their dotted names; relative imports are refused."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports are not used"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner.removeprefix("ps_train.") in MODULES else node.module)
    return found


def ours(name):
    imports = imported_by(MODULES[name].read_text())
    return {other.removeprefix("ps_train.") for other in imports if other.startswith("ps_train.")}


def breaks_the_line(name, other):
    """True if the first module must not import the second."""
    home, place = subsystem_of(name), subsystem_of(other)
    if home not in ORDER:  # faces and shipped models
        return place == "models" != home
    return place not in ORDER or ORDER.index(place) > ORDER.index(home)


def test_the_walk_finds_every_form_of_import():
    source = "import ps_train.metrics\nfrom ps_train.engine.variables import plan, no_module\nimport numpy as np\n"
    source += "def late():\n    from ps_train.modeling.model import Model\n    import os.path\n"
    assert imported_by(source) == {
        "ps_train.metrics",
        "ps_train.engine.variables.plan",
        "ps_train.engine.variables",
        "ps_train.modeling.model",
        "numpy",
        "os.path",
    }


@pytest.mark.parametrize(
    ("name", "other", "wrong"),
    [
        ("engine.step.unroll", "engine.updates.base", False),
        ("engine.step.unroll", "base.errors", False),
        ("base.errors", "config.job", True),
        ("training.loop.loop", "embeddings", True),
        ("commands.launch.fit", "models.digits", True),
        ("train", "compat.train.names", False),
        ("train", "models.digits", True),
        ("models.criteo", "models.layers", False),
    ],
)
def test_what_breaks_the_line_is_found(name, other, wrong):
    assert breaks_the_line(name, other) is wrong


def test_a_module_imports_from_its_own_subsystem_and_those_before_it():
    wrong = [
        f"{name} imports {other}" for name in MODULES for other in sorted(ours(name)) if breaks_the_line(name, other)
    ]
    assert wrong == []


def test_a_shipped_model_imports_what_a_users_model_may_import():
    tools = {"base.errors", "base.command_parser"}  # of the program that makes synthetic click records
    wrong = [
        f"{name} imports {other}"
        for name in MODULES
        if subsystem_of(name) == "models"
        for other in ours(name)
        if subsystem_of(other) not in PUBLIC and not (other in tools and name.startswith("models.clicks"))
    ]
    assert wrong == []


def test_every_module_is_in_a_subsystem_or_a_face():
    assert {subsystem_of(name) for name in MODULES} == {*ORDER, *FACES, "models", "", "__main__"}


def test_no_imports_are_circular():
    done = set()

    def circle_from(name, above=()):
        if name in above:
            return [*above[above.index(name) :], name]
        for other in sorted(ours(name) & MODULES.keys()):
            if other not in done and (found := circle_from(other, (*above, name))):
                return found
        done.add(name)
        return None

    assert [circle for name in MODULES if name not in done and (circle := circle_from(name))] == []


@pytest.mark.parametrize("page", ["dev/architecture.md", "decisions/0024-one-line-of-subsystems.md"])
def test_the_documents_show_the_line(page):
    text = (DOCS / page).read_text()
    assert f"`{LINE}`" in " ".join(text.split())
    shown = re.findall(r"^\| \d+ \| `(\w+)/` \|", text, re.MULTILINE)
    assert shown in ([], ORDER)


def test_only_flags_knows_absl():
    knowing = {
        name for name in MODULES if any(n.partition(".")[0] == "absl" for n in imported_by(MODULES[name].read_text()))
    }
    assert knowing == {"config.flags"}


def run_python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


def least_cpu_secs(*arguments):
    """The least of three runs, all of which must succeed; the seconds of the clock depend on what else runs."""
    found = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run_python(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
    return min(found)


def imported_at_run_time(*arguments):
    """Top-level modules that a Python process imports, as the interpreter itself reports them."""
    done = run_python("-X", "importtime", *arguments)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_the_package_is_imported_with_less_than_a_second_of_work():
    assert least_cpu_secs("-c", "import ps_train") < 1.0


def test_help_is_shown_without_tensorflow_and_with_less_than_a_second_of_work():
    imported = imported_at_run_time("-m", "ps_train", "--help")
    assert {"absl", "ps_train"} <= imported
    assert imported.isdisjoint({"tensorflow", "numpy"})
    assert least_cpu_secs("-m", "ps_train", "--help") < 1.0


def test_the_launcher_is_started_without_tensorflow():
    imported = imported_at_run_time("-m", "ps_train", "launch", "--help")
    assert "ps_train" in imported and imported.isdisjoint({"tensorflow", "numpy"})


CLUSTER = ["--ps_hosts=localhost:2222", "--worker_hosts=localhost:2223"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--max_step=3"], "max_steps"),
        (["--model=no_such_module:Net"], "no_such_module"),
        (["--model_arg=hiden=3"], "hiden"),
        (["--model_dir=/proc/nothing"], "model_dir=/proc/nothing"),
        (["--model_dir=memory://x"], "memory://x"),
        (["--min_workers=9"], "min_workers=9"),
        ([*CLUSTER, "--job_name=worker", "--task_index=0"], "model_dir is not given"),
        ([*CLUSTER, "--job_name=worker", "--task_index=0", "--model=no_such_module:Net", "--model_dir=m"], "no_such"),
    ],
)
def test_a_wrong_configuration_is_refused_without_tensorflow(arguments, text):
    done = run_python("-X", "importtime", "-m", "ps_train", *arguments)
    assert done.returncode == 2
    assert text in done.stderr and done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert lines and not any("tensorflow" in line or "numpy" in line for line in lines)
