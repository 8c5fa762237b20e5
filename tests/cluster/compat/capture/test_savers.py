"""A model_fn may make savers of every form: the engine saves in their place, at their times."""

from __future__ import annotations

import dataclasses
import pathlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.compat.capture.captured_training import train
from ps_train.compat.capture.estimator_program import CaptureError, Program
from ps_train.compat.capture.job_of_config import job_of
from ps_train.compat.capture.savers import replaced_savers
from ps_train.compat.capture.survey import survey_program
from tests.support.compat.programs import check, embedding, input_fn, minimize, network, program_of, spec_of, step

EVERY = v1.GraphKeys.GLOBAL_VARIABLES


def every_form(loss: tf.Tensor) -> Any:
    done = minimize(loss)
    everything = v1.get_collection(EVERY)
    average = v1.train.ExponentialMovingAverage(0.9)
    parts = v1.get_variable("parts", [6, 2], partitioner=v1.fixed_size_partitioner(3), trainable=False)
    savers = [
        v1.train.Saver(),
        v1.train.Saver(everything, sharded=True, max_to_keep=3),
        v1.train.Saver({variable.op.name: variable for variable in everything}),
        v1.train.Saver({"other/name": v1.trainable_variables("dense")[0]}),
        v1.train.Saver([*v1.trainable_variables(), parts]),
        v1.train.Saver(average.variables_to_restore()),
    ]
    later = v1.train.Saver(defer_build=True)
    later.build()
    assert savers[1].as_saver_def().max_to_keep == 3 and later.saver_def.save_tensor_name
    v1.add_to_collection(v1.GraphKeys.SAVERS, savers[1])
    return done


def test_savers_of_every_form_change_nothing() -> None:
    survey = check(program_of(every_form), 2)
    assert len(survey.saving.definitions) == 7 and survey.saving.keep == 3
    assert "embedding" in survey.looked_up


def with_scaffold(scaffold: Callable[[], Any], **more: Any) -> Program:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        looked_up = tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)
        loss = tf.reduce_mean((network(features, looked_up) - labels) ** 2)
        train_op, hooks = minimize(loss), {name: make() for name, make in more.items()}
        return spec_of(loss, train_op, scaffold=v1.train.Scaffold(saver=scaffold()), **hooks)

    usual = {"tf_random_seed": 7, "save_checkpoints_steps": 4, "save_checkpoints_secs": None, "keep_checkpoint_max": 5}
    usual["keep_checkpoint_every_n_hours"] = 10000
    config = types.SimpleNamespace(
        cluster_spec=v1.train.ClusterSpec({}), save_summary_steps=None, job=None, device_fn=None, **usual
    )
    return Program(model_fn, input_fn, config, "", max_steps=12)


class SaverHook(v1.train.CheckpointSaverHook):
    """A hook with a name of the program's own."""


def test_settings_of_the_savers_hook_hold_for_the_engine(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    class Listener(v1.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            told.append(global_step_value)

    def hooks() -> list[Any]:
        return [SaverHook(str(tmp_path), save_steps=3, listeners=[Listener()])]

    def saver() -> Any:
        everything = [variable for variable in v1.get_collection(EVERY) if variable.op.name != "dense/bias"]
        return v1.train.Saver(everything, sharded=True, max_to_keep=2, keep_checkpoint_every_n_hours=3)

    program = dataclasses.replace(with_scaffold(saver, training_hooks=hooks), model_dir=str(tmp_path))
    assert train(program) == 12
    names = {path.name for path in tmp_path.glob("model.ckpt-*.index")}
    assert len(names) == 2 and told[0] == 0 and told[-1] == 12
    job = job_of(program.config, program.model_dir, 12, survey_program(program))
    assert (job.save_steps, job.save_secs, job.keep_checkpoints, job.keep_every_hours) == (3, 0, 2, 3.0)
    saved = tf.train.load_checkpoint(str(tmp_path))
    assert saved.has_tensor("dense/bias"), "the engine saves all variables"
    assert "SaverHook" in caplog.text and "saves nothing" in caplog.text


class SavesItself(v1.train.SessionRunHook):
    """A hook that a saver is given to."""

    def __init__(self) -> None:
        self.own = v1.train.Saver()


def renaming() -> Any:
    return v1.train.Saver({"other": v1.trainable_variables("dense")[0]})


def of_hook(hook: Callable[[], Any]) -> Program:
    return with_scaffold(lambda: None, training_hooks=lambda: [hook()])


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (with_scaffold(renaming), "its Saver saves variable dense/kernel as other"),
        (of_hook(SavesItself), "the hook SavesItself has a Saver of its own"),
        (of_hook(lambda: v1.train.CheckpointSaverHook("else", save_steps=1)), "CheckpointSaverHook saves else/model"),
        (
            with_scaffold(lambda: None, training_hooks=lambda: [v1.train.CheckpointSaverHook("", save_steps=1)] * 2),
            "it has 2 hooks of the kind CheckpointSaverHook",
        ),
    ],
    ids=["renames", "in_a_hook", "elsewhere", "two"],
)
def test_a_saver_that_the_engine_cannot_replace_is_the_reason(program: Program, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        survey_program(program)


def test_a_saver_on_the_engine_says_that_it_cannot_save() -> None:
    definition = v1.train.SaverDef(save_tensor_name="save:0", restore_op_name="restore")
    with tf.Graph().as_default(), replaced_savers([definition]):
        v1.get_variable("w", [1])
        saver = v1.train.Saver()
        with pytest.raises(CaptureError, match="builds other savers"):
            v1.train.Saver()
    for use, verb in ((saver.save, "save"), (saver.restore, "restore")):
        with pytest.raises(ModelError, match=f"a Saver of the model_fn cannot {verb} in training"):
            use(None, "m/model.ckpt")


def test_warm_start_in_a_model_fn_gives_the_first_values(tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        kernel = v1.get_variable("dense/kernel", [9, 1], initializer=v1.constant_initializer(0.5))
        session.run(kernel.initializer)
        v1.train.Saver().save(session, str(tmp_path / "old"))

    def warm(loss: tf.Tensor) -> Any:
        v1.train.warm_start(str(tmp_path / "old"), vars_to_warm_start="dense/kernel")
        return v1.train.GradientDescentOptimizer(0.0).minimize(loss, step())

    program = dataclasses.replace(program_of(warm), config=with_scaffold(lambda: None).config, max_steps=2)
    program = dataclasses.replace(program, model_dir=str(tmp_path / "new"))
    assert train(program) == 2
    found = tf.train.load_checkpoint(program.model_dir).get_tensor("dense/kernel")
    np.testing.assert_array_equal(found, np.full([9, 1], 0.5, np.float32))
