"""The cases of `benchmarks graph_size`, its processes and its report."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from benchmarks.errors import UsageError
from benchmarks.graph_models import MODELS
from benchmarks.graph_size import ENGINES, SIZES, Case, cases_of, programs, report


def test_a_case_without_sizes_has_those_of_its_model():
    assert [str(case) for case in cases_of("tables,products:5+7")] == [
        *(f"tables:{size}" for size in SIZES["tables"]), "products:5", "products:7",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["trees", "tables:", "tables:x", "tables:0", "tables:1+", ""])
def test_a_wrong_case_is_refused(text: str):
    with pytest.raises(UsageError, match=r"--cases=.* is not valid: use model:size"):
        cases_of(text)


def trained_shapes(model: str, size: int) -> list[tuple[int, ...]]:
    with tf.Graph().as_default():
        made: Any = MODELS[model](size)
        made.plain_step(*v1.data.make_one_shot_iterator(made.batches()).get_next())
        return [tuple(variable.shape.as_list()) for variable in v1.trainable_variables()]


def test_a_model_has_as_many_variables_and_tables_as_its_size_says():
    assert trained_shapes("variables", 4).count((64, 64)) == 4
    assert trained_shapes("tables", 3).count((1000, 8)) == 3
    assert trained_shapes("products", 6).count((1000, 8)) == 1


def test_a_model_of_products_multiplies_as_often_as_its_size_says():
    made = MODELS["products"](9)
    with tf.Graph().as_default() as graph:
        made.loss(*v1.data.make_one_shot_iterator(made.batches()).get_next())
        # The initial values of the table are a product too, of [1000, 8].
        products = [op for op in graph.get_operations() if op.type == "Mul" and op.outputs[0].shape == [None, 8]]
    assert len(products) == 9


def test_every_engine_has_the_processes_of_one_ps_and_one_worker():
    assert set(SIZES) == set(MODELS)
    names = {engine: [one.name for one in programs(Case("columns", 3), engine, 24)] for engine in ENGINES}
    assert names == {**{engine: ["ps:0", "worker:0"] for engine in ENGINES}, "single": ["worker:0"]}
    (launcher,) = programs(Case("tables", 3), "ours-1", 24)
    assert "--steps_per_run=1" in launcher.command and "--model_arg=size=3" in launcher.command


def test_the_report_shows_medians_and_their_ratios_to_the_classic_recipe():
    run = dict.fromkeys(
        ("first_step", "first_step_cpu", "chief_mib", "ps_mib", "early_steps_per_sec", "steps_per_sec"), 2.0
    )
    ours = [{**run, "first_step": secs, "job": math.pi} for secs in (1.0, 3.0, 9.0)]
    machine = {"cpu": "a CPU", "cores": 2, "memory_gib": 24, "kernel": "6", "python": "3.11", "tensorflow": "2.21"}
    record = {
        "date": "2026-01-01",
        "machine": machine,
        "load": [0.5, 1.5],
        "observe_secs": 30.0,
        "runs": {"tables:26": {"ours": ours, "classic": [run]}},
    }
    text = report(record)
    assert "a CPU, 2 cores" in text and "load average 0.5 before and 1.5 after" in text
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "tables:26" in line]
    assert cells[0][:4] == ["tables:26", "ours", "3", "3.00 (1.50)"] and cells[0][9] == "3.14"
    assert cells[1][:4] == ["tables:26", "classic", "1", "2.00"] and cells[1][9] == "-"
