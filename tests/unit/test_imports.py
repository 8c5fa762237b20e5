"""Who may import whom, and that the program answers before TensorFlow is there."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import pathlib
import subprocess
import sys
import time

import pytest

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent

FLOORS = {
    0: ["errors", "checks", "combinations", "config", "console", "restarts", "faults", "held_ports", "options"],
    1: ["cluster", "cluster.*", "metrics", "model", "optimizers", "data", "data.*"],
    2: [
        "embeddings",
        "embeddings.*",
        "graph",
        "graph.asked",
        "graph.backward",
        "graph.beginning",
        "graph.chunks",
        "graph.directory",
        "graph.begun",
        "graph.copied_functions",
        "graph.custom_gradients",
        "graph.effects",
        "graph.forward",
        "graph.global_step",
        "graph.model_state",
        "graph.handout",
        "graph.initial_tensor",
        "graph.local_state",
        "graph.model_variable",
        "graph.parcels",
        "graph.plain",
        "graph.plan",
        "graph.promise",
        "graph.rows",
        "graph.rule",
        "graph.seeded_graph",
        "graph.shadow",
        "graph.tables",
        "graph.totals",
        "graph.trace",
        "graph.variables",
        "graph.vocabulary",
        "graph.transport",
        "graph.user_variables",
        "graph.unroll",
        "updates",
        "updates.*",
        "gradients",
        "gradients.*",
        "hooks",
        "hooks.*",
    ],
    3: ["graph.step", "graph.state", "graph.work", "graph.scoring", "checkpoint", "snapshots", "export"],
    4: ["roles", "roles.*"],
    5: ["__main__", "flags"],
}
"""A module may import its own floor and lower ones."""

MODELS = ["models", "models.*"]
MODELS_MAY_IMPORT = ["metrics", "model", "optimizers", "data", "data.*", "embeddings", *MODELS]


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def floor_of(name):
    floors = [floor for floor, patterns in FLOORS.items() if matches(name, patterns)]
    assert len(floors) == 1, f"ps_train.{name} stands on no floor of {__name__}.FLOORS, or on several: {floors}"
    return floors[0]


def name_of(path):
    """`graph.plan`; a package is named like its `__init__`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_by(source, name, is_package):
    """The modules that a source imports, wherever in it: absolute dotted names, ours and others'."""
    here = ["ps_train", *name.split(".")] if name else ["ps_train"]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            level = node.level - (1 if is_package else 0)
            base = [*here[: len(here) - level], *filter(None, [node.module])] if node.level else [node.module]
            start = ".".join(base)
            for alias in node.names:
                inner = f"{start}.{alias.name}"
                found.add(inner if inner.removeprefix("ps_train.") in MODULES else start)
    return found


def imports_of(name):
    path = MODULES[name]
    return imported_by(path.read_text(), name, path.name == "__init__.py")


def ours(imports):
    return {name.removeprefix("ps_train.") for name in imports if name.startswith("ps_train.")}


def test_the_walk_finds_every_form_of_import():
    source = "import ps_train.config\nfrom ps_train.graph import plan, step\nfrom ps_train.model import Model\n"
    source += "from . import trace\nfrom .variables import Stored\nfrom ..data.shard import Share\nimport numpy as np\n"
    source += "def late():\n    from ps_train.roles import local\n    import os.path\n"
    assert imported_by(source, "graph.transport", False) == {
        "ps_train.config",
        "ps_train.graph.plan",
        "ps_train.graph.step",
        "ps_train.model",
        "ps_train.graph.trace",
        "ps_train.graph.variables",
        "ps_train.data.shard",
        "numpy",
        "ps_train.roles.local",
        "os.path",
    }
    assert imported_by("from .base import Update\n", "updates", True) == {"ps_train.updates.base"}


@pytest.mark.parametrize("name", [name for name in MODULES if name and not matches(name, MODELS)])
def test_a_module_imports_its_own_floor_or_lower_ones(name):
    for other in ours(imports_of(name)):
        assert not matches(other, MODELS), f"ps_train.{name} imports ps_train.{other}: models are found by their path"
        assert floor_of(other) <= floor_of(name), (
            f"ps_train.{name} (floor {floor_of(name)}) imports ps_train.{other} (floor {floor_of(other)})"
        )


@pytest.mark.parametrize("name", [name for name in MODULES if matches(name, MODELS)])
def test_a_model_that_ships_needs_no_more_than_a_users_model(name):
    for other in ours(imports_of(name)):
        assert matches(other, MODELS_MAY_IMPORT), f"ps_train.{name} imports ps_train.{other}"


def test_the_package_itself_imports_nothing_of_its_own():
    imports = imports_of("")
    assert {name for name in imports if name.partition(".")[0] not in sys.stdlib_module_names} == set()


LAUNCHER = ["roles", "roles.local", "roles.children", "roles.forked"]


@pytest.mark.parametrize("name", [*FLOORS[0], *LAUNCHER])
def test_floor_0_and_the_launcher_need_the_standard_library_and_floor_0_only(name):
    imports = imports_of(name)
    assert {other for other in ours(imports) if not matches(other, [*FLOORS[0], *LAUNCHER])} == set()
    others = {name.partition(".")[0] for name in imports} - {"ps_train"}
    assert others <= sys.stdlib_module_names


def test_only_flags_knows_absl():
    assert {name for name in MODULES if any(n.partition(".")[0] == "absl" for n in imports_of(name))} == {"flags"}


def test_the_public_names_are_exactly_these():
    assert ps_train.__all__ == [
        "Arrays",
        "ConfigError",
        "DataError",
        "Job",
        "Model",
        "ModelError",
        "PsTrainError",
        "RefusedError",
        "Task",
        "TrainingError",
        "__version__",
    ]
    assert dir(ps_train) == ps_train.__all__


@pytest.mark.parametrize("name", ps_train.__all__)
def test_every_public_name_can_be_fetched(name):
    found = getattr(ps_train, name)
    if isinstance(found, type):
        assert found.__name__ == name
        assert getattr(importlib.import_module(found.__module__), name) is found


def test_an_unknown_name_is_refused_with_the_public_ones():
    with pytest.raises(AttributeError) as caught:
        _ = ps_train.Modell
    assert "'Modell'" in str(caught.value)
    assert "Model," in str(caught.value)


def run_python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


def best_of_three(*arguments):
    """The least seconds of three runs, all of which must succeed."""
    found = []
    for _ in range(3):
        start = time.monotonic()
        done = run_python(*arguments)
        found.append(time.monotonic() - start)
        assert done.returncode == 0, done.stderr
    return min(found)


def imported_at_run_time(*arguments):
    """Top-level modules that a Python process imports, as the interpreter itself reports them."""
    done = run_python("-X", "importtime", *arguments)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


ASSERTION = "import ps_train, sys; assert 'tensorflow' not in sys.modules; assert 'numpy' not in sys.modules"


def test_the_package_is_imported_without_tensorflow_and_in_less_than_a_second():
    assert best_of_three("-c", ASSERTION) < 1.0


def test_help_is_shown_without_tensorflow_and_in_less_than_a_second():
    imported = imported_at_run_time("-m", "ps_train", "--help")
    assert {"absl", "ps_train"} <= imported
    assert imported.isdisjoint({"tensorflow", "numpy"})
    assert best_of_three("-m", "ps_train", "--help") < 1.0


def test_a_wrong_flag_is_refused_without_tensorflow():
    done = run_python("-X", "importtime", "-m", "ps_train", "--max_step=3")
    assert done.returncode == 2
    assert "max_steps" in done.stdout
    assert not any("tensorflow" in line for line in done.stderr.splitlines() if line.startswith("import time:"))
