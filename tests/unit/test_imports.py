"""Imports between rooms, and answers of the program before TensorFlow is there."""

from __future__ import annotations

import ast
import fnmatch
import pathlib
import subprocess
import sys
import time

import pytest

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent

ROOMS = """
errors metrics private_tf batch_size_policy tcp_connections input_result
user_code network_interfaces untrusted command_parser hidden_modules
config optimizers dynamic_batches served_features example_rows
data model_file http_server
model cluster embeddings event_model measured_network record_files
models runtime placement firewall_rules data_sources
coordination launch nftables batch_size_control
transport checkpoint metric_sums token_gate kept_pull
updates
graph observe
training
roles
__main__ doctor
programs classic firewall
specs
train
estimator
legacy
run
"""
"""Each line stands on those above it.  A module imports its own room, and rooms of the lines above its own."""

LEVELS = {room: level for level, line in enumerate(ROOMS.split("\n")) for room in line.split()}
MODELS_MAY_IMPORT = ["metrics", "optimizers", "data", "data.criteo", "data.digits", "data.idx", "embeddings"]
MODELS_MAY_IMPORT += ["models", "models.*"]


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def room_of(name):
    """`graph` for `graph.plan`."""
    return name.partition(".")[0]


def level_of(name):
    room = room_of(name)
    assert room in LEVELS, f"the room ps_train/{room} has no place in {__name__}.ROOMS"
    return LEVELS[room]


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
    source = "import ps_train.metrics\nfrom ps_train.engine.variables import plan, variables\nfrom ps_train.modeling.model import Model\n"
    source += (
        "from . import unroll\nfrom .forward import Stored\nfrom ..data.pipeline import Share\nimport numpy as np\n"
    )
    source += "def late():\n    from ps_train.launch import local\n    import os.path\n"
    assert imported_by(source, "graph.train_step", False) == {
        "ps_train.metrics",
        "ps_train.engine.variables.plan",
        "ps_train.engine.variables.variables",
        "ps_train.modeling.model",
        "ps_train.engine.step.unroll",
        "ps_train.engine.step.forward",
        "ps_train.data.pipeline",
        "numpy",
        "ps_train.commands.launch.local",
        "os.path",
    }
    assert imported_by("from .base import Update\n", "updates", True) == {"ps_train.engine.updates.base"}


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_a_module_imports_its_own_room_or_rooms_below(name):
    for other in ours(imports_of(name)):
        assert room_of(other) == room_of(name) or level_of(other) < level_of(name), (
            f"ps_train.{name} (level {level_of(name)}) imports ps_train.{other} (level {level_of(other)})"
        )


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) != "models"])
def test_no_module_imports_a_model_that_ships(name):
    assert not {other for other in ours(imports_of(name)) if room_of(other) == "models"}, (
        "models are found by their path"
    )


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) == "models"])
def test_a_model_that_ships_needs_no_more_than_a_users_model(name):
    allowed = (
        [*MODELS_MAY_IMPORT, "data.*", "errors", "command_parser"]
        if name.startswith("models.clicks")
        else MODELS_MAY_IMPORT
    )
    for other in ours(imports_of(name)):
        assert matches(other, allowed), f"ps_train.{name} imports ps_train.{other}"


def test_the_rooms_are_those_that_have_a_place():
    assert {room_of(name) for name in MODULES if name} == LEVELS.keys()


def test_a_room_that_has_no_place_is_refused():
    with pytest.raises(AssertionError, match="no place"):
        level_of("attic.boxes")


def cycle_from(name, above=()):
    """The modules of a circle of imports that is found below `name`, if there is one."""
    if name in above:
        return [*above[above.index(name) :], name]
    for other in sorted(ours(imports_of(name)) & MODULES.keys()):
        if other not in DONE and (found := cycle_from(other, (*above, name))):
            return found
    DONE.add(name)
    return None


DONE = set()


def test_no_file_imports_itself_by_a_circle():
    for name in MODULES:
        assert name in DONE or cycle_from(name) is None


STANDARD = [
    "errors",
    "user_code",
    "command_parser",
    "untrusted",
    "config",
    "config.*",
    "launch",
    "launch.*",
    "runtime",
    "runtime.console",
]
STANDARD += [
    "runtime.environment",
    "runtime.progress_line",
    "runtime.signals",
    "runtime.gc_control",
    "runtime.process_ids",
    "runtime.malloc",
    "runtime.error_report",
    "runtime.lifecycle",
    "runtime.lost_outputs",
    "cluster",
    "cluster.spec",
    "model_file",
    "network_interfaces",
]


@pytest.mark.parametrize("name", [n for n in MODULES if matches(n, STANDARD) and n != "config.flags"])
def test_what_the_launcher_needs_is_the_standard_library(name):
    imports = imports_of(name)
    assert {other for other in ours(imports) if not matches(other, STANDARD)} == set()
    others = {name.partition(".")[0] for name in imports} - {"ps_train"}
    assert others <= sys.stdlib_module_names


def test_only_flags_knows_absl():
    assert {name for name in MODULES if any(n.partition(".")[0] == "absl" for n in imports_of(name))} == {
        "config.flags"
    }


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


def test_the_package_is_imported_in_less_than_a_second():
    assert best_of_three("-c", "import ps_train") < 1.0


def test_help_is_shown_without_tensorflow_and_in_less_than_a_second():
    imported = imported_at_run_time("-m", "ps_train", "--help")
    assert {"absl", "ps_train"} <= imported
    assert imported.isdisjoint({"tensorflow", "numpy"})
    assert best_of_three("-m", "ps_train", "--help") < 1.0


CLUSTER = ["--ps_hosts=localhost:2222", "--worker_hosts=localhost:2223"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--max_step=3"], "max_steps"),
        (["--model=no_such_module:Net"], "no_such_module"),
        (["--model_arg=hiden=3"], "hiden"),
        (["--model_dir=/proc/nothing"], "model_dir=/proc/nothing"),
        (["--model_dir=gs://bucket/x"], "gs://bucket/x"),
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
