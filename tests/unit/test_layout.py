"""The tests of a module are found by its path: tests/unit/ROOM/test_FILE.py or tests/cluster/ROOM/test_FILE.py."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

import pytest

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent
TESTS = pathlib.Path(__file__).parents[1]
ELSEWHERE = {
    "benchmarks": TESTS.parent / "benchmarks",
    **{folder: TESTS / folder for folder in ("support", "mutation", "programs")},
}
"""Folders of tests of what is not in ps_train."""

OF_THE_REPOSITORY = {"constraints", "documents", "examples", "imports", "layout", "prose", "public_surface", "soak"}
LARGE = 40
"""Lines with a statement from which on a module has a test file of its own, or is in COVERED_BY."""

COVERED_BY = {
    "config/trackers.py": "tests/unit/observe/tracking/test_tracked_run.py",
    # Workers of a rack, judged by jobs whose aggregator is killed.
    "training/loop/rack.py": "tests/process/test_racks.py",
    "training/tasks/racks.py": "tests/process/test_racks.py",
    # Parts of readers, judged by what is read.
    "data/parse_faults.py": "tests/unit/data/test_record_parser.py",
    "data/parquet/reading.py": "tests/unit/data/parquet/test_parquet_files.py",
    "data/record_check.py": "tests/unit/data/test_record_files.py",
    # Cuts of streams by event time, judged by what the checkpoints hold.
    "data/unbounded/event_times.py": "tests/cluster/test_event_cuts.py",
    "training/loop/event_cuts.py": "tests/cluster/test_event_cuts.py",
    # Model directories on object stores, judged by what a reader finds there.
    "base/remote_files.py": "tests/unit/engine/checkpoint/test_uploads.py",
    "engine/checkpoint/spool.py": "tests/unit/engine/checkpoint/test_uploads.py",
    "training/tasks/model_directory.py": "tests/process/test_remote_model_dir.py",
    # Parts of a graph that can be judged only in a whole graph.
    "compat/estimator/names.py": "tests/unit/compat/estimator/test_canned_refused.py",
    "compat/tf1/contrib_learn_datasets.py": "tests/unit/compat/tf1/test_contrib.py",
    "compat/capture/program.py": "tests/cluster/compat/capture/test_savers.py",
    "engine/step/train_step.py": "tests/cluster/test_modes.py",
    "engine/step/ps_step.py": "tests/cluster/test_modes.py",
    "engine/step/ps_state.py": "tests/cluster/test_modes.py",
    "engine/step/worker_step.py": "tests/cluster/test_modes.py",
    "engine/step/backward.py": "tests/cluster/test_gradients.py",
    "engine/step/metric_sums.py": "tests/cluster/engine/step/test_evaluation.py",
    "training/tasks/model_check.py": "tests/unit/modeling/test_model_errors.py",
    "engine/checkpoint/deltas/saved.py": "tests/unit/engine/checkpoint/deltas/test_difference.py",
    "engine/checkpoint/warm_start/choices.py": "tests/cluster/engine/checkpoint/warm_start/test_warm_start.py",
    "engine/checkpoint/warm_start/name_map.py": "tests/cluster/engine/checkpoint/warm_start/test_warm_start.py",
    "engine/checkpoint/warm_start/routes.py": "tests/cluster/engine/checkpoint/warm_start/test_warm_start.py",
    "engine/checkpoint/warm_start/source.py": "tests/cluster/engine/checkpoint/warm_start/test_warm_start.py",
    "engine/checkpoint/warm_start/writing.py": "tests/cluster/engine/checkpoint/warm_start/test_warm_start.py",
    "modeling/tables/table_layout.py": "tests/cluster/engine/checkpoint/warm_start/test_warm_start.py",
    "training/tasks/warm_starts.py": "tests/process/test_warm_start.py",
    "training/tasks/delta_writer.py": "tests/process/test_delta_writer.py",
    "observe/tracking/mlflow_tracker.py": "tests/process/test_tracking.py",
    "observe/tracking/wandb_tracker.py": "tests/process/test_tracking.py",
    "commands/scoring/model_rows.py": "tests/unit/commands/scoring/test_compare.py",
    "commands/scoring/opened_data.py": "tests/unit/commands/scoring/test_predict.py",
    "commands/scoring/resumable.py": "tests/unit/commands/scoring/test_predict.py",
    "commands/scoring/results.py": "tests/unit/commands/scoring/test_predict.py",
    "commands/scoring/rows.py": "tests/unit/commands/scoring/test_predict.py",
    "commands/tuning/call.py": "tests/process/test_tune.py",
    "commands/tuning/command.py": "tests/process/test_tune.py",
    "commands/tuning/study.py": "tests/unit/commands/tuning/test_search.py",
    "engine/updates/base.py": "tests/cluster/test_modes.py",
    "engine/updates/gradient_accumulator.py": "tests/cluster/engine/updates/test_synchronous.py",
    "modeling/tables/deferred_lookups.py": "tests/cluster/test_tables.py",
    "modeling/tables/vocabulary_index.py": "tests/cluster/engine/transport/test_vocabulary.py",
    "modeling/tables/row_allocator.py": "tests/cluster/engine/transport/test_vocabulary.py",
    "engine/updates/shard_ownership.py": "tests/cluster/test_dynamic_sharding.py",
    "engine/transport/model_state.py": "tests/cluster/test_model_state.py",
    "engine/variables/initial_tensor.py": "tests/unit/engine/variables/test_user_variables.py",
    # Parts of a process that need real processes.
    "training/loop/session.py": "tests/process/test_recovery.py",
    "training/loop/partition_client.py": "tests/cluster/test_unbounded_sources.py",
    "training/loop/recovery.py": "tests/process/test_recovery.py",
    "commands/launch/child_process.py": "tests/process/test_restarts.py",
    # Declarations, tested with the code that reads them.
    "config/cluster_fields.py": "tests/unit/config/test_job.py",
    "config/training_fields.py": "tests/unit/config/test_job.py",
    # It changes the modules of a process, and so needs one of its own.
    "compat/tf1/moved_modules.py": "tests/unit/compat/tf1/test_facade_programs.py",
    # Tested through the two modules that use it.
    "config/model_arguments.py": "tests/unit/modeling/test_file_check.py",
    # Models, judged by the scores that they reach.
    **{
        f"models/{name}.py": "tests/cluster/test_click_recipes.py"
        for name in ("dcn", "din", "esmm", "multitask", "two_tower")
    },
    # Names of TensorFlow 1, used by programs under the facade.
    "compat/tf1/contrib_crf.py": "tests/support/tf1_programs/conditional_random_field.py",
    "compat/tf1/contrib_learn.py": "tests/support/tf1_programs/experiments.py",
    "compat/tf1/contrib_metrics.py": "tests/support/tf1_programs/streaming_metrics.py",
    "compat/tf1/contrib_predictor.py": "tests/support/tf1_programs/experiments.py",
    "compat/tf1/contrib_tpu.py": "tests/support/tf1_programs/without_tpus.py",
    "compat/tf1/contrib_rnn.py": "tests/support/tf1_programs/recurrent_networks.py",
    "compat/tf1/old_names.py": "tests/support/tf1_programs/old_names.py",
}
"""Large modules without a test file of their own, and the tests that cover them."""


def names_in(folder):
    """Names of the modules and packages of a folder; `main` for `__main__`."""
    found = [path.stem.strip("_") for path in folder.glob("*.py") if path.stem != "__init__"]
    return {*found, *(path.name for path in folder.iterdir() if (path / "__init__.py").exists())}


def problem_of(path):
    """Returns the reason why a file of tests/unit or tests/cluster has no module by its path, or ""."""
    tier, *folders = path.parts[:-1]
    if not folders and tier == "cluster":
        return ""  # whole behaviours
    room = ELSEWHERE.get(folders[0], PACKAGE / folders[0]) if folders else PACKAGE
    room = room.joinpath(*folders[1:])
    if not room.is_dir():
        return f"there is no room {room}"
    names = names_in(room) | (set() if folders else OF_THE_REPOSITORY)
    stem = path.stem.removeprefix("test_")
    if any(stem == name or stem.startswith(f"{name}_") for name in names):
        return ""
    return f"no module of {room} gives {path.name} its name"


FILES = sorted(
    path.relative_to(TESTS)
    for tier in ("unit", "cluster")
    for path in (TESTS / tier).rglob("*.py")
    if path.name != "conftest.py"
)


def test_a_test_file_has_the_name_of_a_module_of_its_room():
    assert [str(path) for path in FILES if not path.name.startswith("test_")] == []
    assert [f"{path}: {problem_of(path)}" for path in FILES if problem_of(path)] == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("unit/heart/test_beat.py", "there is no room"),
        ("unit/data/csv/test_reader.py", "there is no room"),
        ("unit/engine/updates/test_turnstile.py", "no module"),
        ("unit/test_turnstile.py", "no module"),
        ("cluster/engine/updates/test_bound.py", "no module"),
        ("unit/engine/updates/test_boundedness.py", "no module"),
        ("unit/benchmarks/test_updates.py", "no module"),
    ],
)
def test_a_file_without_a_module_is_found(path, problem):
    assert problem in problem_of(pathlib.Path(path))


def statement_lines(path):
    return len({node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.stmt)})


def has_tests(module):
    """True if a test file belongs to the module by its path."""
    module = pathlib.Path(module)
    name = module.stem.strip("_")
    return any(
        path.parts[1:-1] == module.parts[:-1] and (path.stem + "_").startswith(f"test_{name}_") for path in FILES
    )


@functools.cache
def large_modules():
    return [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__init__.py" and statement_lines(path) > LARGE
    ]


def test_a_large_module_has_tests_where_its_path_says_or_the_list_names_them():
    assert [module for module in large_modules() if not has_tests(module) and module not in COVERED_BY] == []


def test_the_list_has_only_large_modules_without_tests_of_their_own_and_names_test_files():
    assert COVERED_BY.keys() <= set(large_modules())
    assert [module for module in COVERED_BY if has_tests(module)] == []
    assert [tests for tests in COVERED_BY.values() if not (TESTS.parent / tests).exists()] == []


def packages():
    """The packages of ps_train whose head has a line for each file."""
    inits = sorted(PACKAGE.rglob("__init__.py"))
    return {
        init.parent: doc
        for init in inits
        if "\nFiles:\n" in (doc := ast.get_docstring(ast.parse(init.read_text())) or "")
    }


def test_the_head_of_a_package_names_each_of_its_files():
    heads = packages()
    assert {"base", "config", "cluster", "data", "modeling", "engine", "observe", "training", "commands", "compat"} <= {
        str(folder.relative_to(PACKAGE)) for folder in heads
    }
    for folder, doc in heads.items():
        named = re.findall(r"^    ([\w./]+)  ", doc.partition("\nFiles:\n")[2], re.MULTILINE)
        there = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        there += [f"{path.name}/" for path in folder.iterdir() if (path / "__init__.py").exists()]
        assert sorted(named) == sorted(there), folder
