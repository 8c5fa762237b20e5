"""The engines of an Estimator: hooks that stop at a step become the end of the training."""

from __future__ import annotations

import types

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.estimator_program import Program
from ps_train.compat.estimator import engines
from ps_train.compat.train.stop_at_step import StopAtStepHook

CONFIG = types.SimpleNamespace(engine="tensorflow", is_chief=True, cluster_spec=v1.train.ClusterSpec({}))


@pytest.fixture
def trained(monkeypatch):
    """The programs that are trained; their newest checkpoint has step 100."""
    found = []
    monkeypatch.setattr(engines, "saved_step", lambda model_dir: 100)
    monkeypatch.setattr(engines, "train_as_script", lambda run: found.append(run) or 7)
    return found


@pytest.mark.parametrize("kind", [v1.train.StopAtStepHook, StopAtStepHook])
@pytest.mark.parametrize(
    ("options", "max_steps", "last"),
    [({"last_step": 300}, None, 300), ({"num_steps": 50}, 400, 150), ({"last_step": 300}, 200, 200)],
)
def test_a_hook_that_stops_at_a_step_is_the_end_for_all_workers(trained, kind, options, max_steps, last):
    other = v1.train.SessionRunHook()
    engines.train(Program(len, len, CONFIG, "m", max_steps, [kind(**options), other]))
    assert [(run.max_steps, run.hooks) for run in trained] == [(last, [other])]


def test_a_program_without_such_a_hook_stays_as_it_is(trained):
    program = Program(len, len, CONFIG, "m")
    assert engines.train(program) == 7 and trained == [program]


def test_nothing_is_trained_after_the_last_step(trained):
    assert engines.train(Program(len, len, CONFIG, "m", None, [v1.train.StopAtStepHook(last_step=100)])) == 100
    assert trained == []


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (None, []),
        ({"track": "none", "local_steps": 1}, []),
        ({"track": "mlflow"}, ["track=mlflow"]),
        ({"local_steps": 4, "outer_optimizer": "nesterov"}, ["local_steps=4", "outer_optimizer=nesterov"]),
    ],
)
def test_flags_of_the_engine_are_told_to_have_no_effect_where_a_program_trains_as_a_script(trained, caplog, job, told):
    engines.train(Program(len, len, types.SimpleNamespace(**{**vars(CONFIG), "job": job}), "m"))
    assert [text.partition(" (from the RunConfig) has no effect")[0] for text in caplog.messages] == told
