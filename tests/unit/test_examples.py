"""Every usage example of a docstring calls what is there, with arguments that it takes."""

from __future__ import annotations

import functools

import pytest

from tests.support.documents.annotations import modules
from tests.support.documents.examples import Example, blocks_of

USERS = {"model_fn"}
"""Functions of a user, which examples call."""


@functools.cache
def examples():
    return {name: [Example(text, module) for text in blocks_of(module)] for name, module in modules().items()}


def test_every_call_of_an_example_is_right():
    assert [f"{name}: {text}" for name, found in examples().items() for one in found for text in one.problems] == []


def test_a_called_name_is_there():
    found = {name: set().union(*(one.unknown for one in of)) - USERS for name, of in examples().items()}
    assert {name: unknown for name, unknown in found.items() if unknown} == {}


def test_most_calls_are_compared():
    assert sum(one.bound for found in examples().values() for one in found) >= 750


JOB = modules()["ps_train.config.job"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Task('worker', 1, 2)", "Task('worker', 1, 2): too many positional arguments"),
        ("Task(..., numbr=1)", "Task(..., numbr=1): got an unexpected keyword argument 'numbr'"),
        ("task = Task('worker', 1)\ntask.nam", "task.nam: Task has no nam"),
        ("job.optimizer_name()", "job.optimizer_name(): missing a required argument: 'default'"),
        ("for name in job.optimizer_name('adam').nam: ...", "job.optimizer_name('adam').nam: OptimizerName has no nam"),
        ("with Job(): ...", "Job(): Job has no __enter__"),
        ("class Mine(Task): ...\nMine(1, 2, 3)", "Mine(1, 2, 3): too many positional arguments"),
        ("from ps_train import Jobs", "from ps_train import Jobs: cannot import name 'Jobs' from 'ps_train'"),
        ("ps_train.Jobs", "ps_train.Jobs: module 'ps_train' has no attribute 'Jobs'"),
        ("the Job(max_steps=1) of a run", "Job(...): not in Python"),
    ],
)
def test_a_wrong_call_is_found(text, problem):
    assert [found[: len(problem)] for found in Example(text, JOB).problems] == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "job = Job(max_steps=3)\njob.max_steps, job.model_arguments()['hidden'].upper(), str(Task('ps', 0))",
        "Task(..., task_index=1), Job(**fields), Job(*fields)",
        "def run(job):\n    job.unknown",
        "store of job (1)",
    ],
)
def test_a_right_one_and_an_unknown_value_are_not(text):
    assert Example(text, JOB).problems == []


def test_a_name_that_is_nowhere_is_found():
    assert Example("start(Task(), stop())\ndef stop(): ...", JOB).unknown == {"start", "stop"}
