"""TensorFlow opens the checkpoints of a captured program, and a cluster those of TensorFlow: the training goes on."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.estimator_program import Program
from ps_train.compat.capture.sessions import DefaultSaver
from ps_train.compat.capture.survey import survey_program
from ps_train.engine.variables.variables import ps_index
from ps_train.modeling.optimizers import LazyAdam, RowWiseAdagrad
from tests.support.clusters.cluster import InProcessCluster
from tests.support.compat.programs import CONFIG, Y, in_one_piece, program_of, spec_of, step, two_adams
from tests.support.long import long

HALF = 2
INPUTS = np.random.default_rng(0).normal(size=(96, 3)).astype(np.float32)


class Counting(v1.train.GradientDescentOptimizer):
    """Variables of the optimizer's own, of each kind and in scopes of its own; its rate depends on them."""

    def _create_slots(self, var_list: list[Any]) -> None:
        self._create_non_slot_variable(0.0, "moment_1", var_list[0])
        self._create_non_slot_variable(0.0, "moment_2", var_list[0])
        with tf.name_scope("own"):
            self._create_non_slot_variable(1.0, "counter", var_list[0])

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            made = enumerate(self._non_slot_variables(), 1)
            done = [one.assign_add(float(number), read_value=False) for number, one in made]
            return tf.group(*done, name=name_scope)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adadelta": lambda: v1.train.AdadeltaOptimizer(0.5),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adagrad_da": lambda: v1.train.AdagradDAOptimizer(0.1, step(), 0.1, 0.01, 0.01),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
    "centered": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
    "counting": lambda: Counting(0.1),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "lazy_adam": lambda: LazyAdam(0.02),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "proximal": lambda: v1.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
    "proximal_descent": lambda: v1.train.ProximalGradientDescentOptimizer(0.1),
    "rms_prop": lambda: v1.train.RMSPropOptimizer(0.01),
    "row_wise": lambda: RowWiseAdagrad(0.1),
    "second_adam": lambda: v1.train.AdamOptimizer(0.03),
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
}


def every_optimizer() -> Program:
    """A layer for each optimizer, applied in a name scope, a variable scope, or both."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        outputs = []
        for name in OPTIMIZERS:
            kernel = v1.get_variable(f"{name}/kernel", [3, 1], initializer=v1.glorot_uniform_initializer(seed=1))
            outputs.append(tf.tanh(features @ kernel))
        loss = tf.reduce_mean((tf.concat(outputs, 1) - labels) ** 2)
        done = []
        for number, (name, make) in enumerate(OPTIMIZERS.items()):
            with contextlib.ExitStack() as scopes:
                if number % 2:
                    scopes.enter_context(v1.variable_scope(f"training/{name}"))
                if number % 3:
                    scopes.enter_context(tf.name_scope("apply"))
                done.append(make().minimize(loss, var_list=v1.trainable_variables(f"{name}/")))
        with tf.control_dependencies(done):
            return spec_of(loss, v1.assign_add(step(), 1).op)

    return Program(
        model_fn, lambda: tf.data.Dataset.from_tensor_slices((INPUTS, Y)).repeat().batch(8), CONFIG, "unused"
    )


@pytest.fixture(params=["of TensorFlow 1", long("functions")])
def control_flow(request: pytest.FixtureRequest) -> Iterator[None]:
    """Conditions as functions, and as programs under --compat have them."""
    was_new = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if request.param == "functions" else v1.disable_control_flow_v2)()
    yield
    (v1.enable_control_flow_v2 if was_new else v1.disable_control_flow_v2)()


def cluster_of(program: Program, directory: pathlib.Path, num_ps: int = 1, **fields: Any) -> InProcessCluster:
    model = CapturedModel(program, survey_program(program), True)
    return InProcessCluster(model, num_ps, 1, directory, epochs=1, **fields)


def save(cluster: InProcessCluster) -> None:
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])


def in_one_session(
    program: Program,
    steps: int,
    restored: str = "",
    skipped: int = 0,
    saved: str = "",
    saver_of: Callable[[], Any] = v1.train.Saver,
) -> dict[str, np.ndarray]:
    """TensorFlow's own session with its own saver, from the values of a checkpoint; returns all values by name."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        features, labels = v1.data.make_one_shot_iterator(program.input_fn().skip(skipped)).get_next()
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True, custom_getter=in_one_piece):
            spec = program.model_fn(features, labels, "train")
        saver = saver_of()
        with v1.Session() as session:
            saver.restore(session, restored)
            for _ in range(steps):
                session.run(spec.train_op)
            if saved:
                saver.save(session, saved, global_step=int(session.run(step())))
            return {variable.op.name: session.run(variable) for variable in v1.global_variables()}


def check_equal(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert expected.keys() <= found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_the_training_of_every_optimizer_goes_on_in_tensorflow_and_back_equal_to_the_bit(
    tmp_path: pathlib.Path, control_flow: None, update: str
) -> None:
    program, theirs, ours = every_optimizer(), tmp_path / "theirs", tmp_path / "ours"
    ours.mkdir()
    theirs.mkdir()
    cluster = cluster_of(program, ours, update=update)
    cluster.start()
    save(cluster)
    cluster.train(HALF)
    save(cluster)
    expected = in_one_session(program, 2 * HALF, f"{ours}/model.ckpt-0")
    check_equal(in_one_session(program, HALF, f"{ours}/model.ckpt-{HALF}", HALF), expected)
    in_one_session(program, HALF, f"{ours}/model.ckpt-0", 0, f"{theirs}/model.ckpt")
    later = Program(program.model_fn, lambda: program.input_fn().skip(HALF), CONFIG, "unused")
    again = cluster_of(later, theirs, update=update)
    assert again.start(restore=True) == HALF
    again.train(HALF)
    check_equal(again.values(), expected)


FORMER = {
    (1, "async"): {"0/cond_1/beta{}_power_1": "0", "1/cond_1/beta{}_power_1": "0 second"},
    (2, "async"): {
        "0/cond_1/beta{}_power_1": "0",
        "1/cond_1/beta{}_power_1": "0 second",
        "training/beta{}_power": "1",
        "training/beta{}_power_1": "1 second",
    },
    (2, "sync"): {
        "0/cond_2/cond/beta{}_power_1": "0",
        "1/cond_2/cond/beta{}_power_1": "0 second",
        "0/cond_10/cond/beta{}_power_1": "1",
        "1/cond_10/cond/beta{}_power_1": "1 second",
    },
}
"""Names that were given to powers of beta in conditions, to the ps and the optimizer, by number of ps and update."""


@pytest.mark.parametrize("num_ps, update", [long(1, "async"), long(2, "async"), long(2, "sync")])
def test_checkpoints_with_names_of_conditions_restore(tmp_path: pathlib.Path, num_ps: int, update: str) -> None:
    """As they were written before names were independent of the place of an update."""
    program = program_of(two_adams)
    cluster = cluster_of(program, tmp_path, num_ps, update=update, partition_bytes=64)
    cluster.start()
    cluster.train(2)
    save(cluster)
    right, former = tf.train.load_checkpoint(f"{tmp_path}/model.ckpt-2"), tmp_path / "former"
    former.mkdir()
    values = {name: right.get_tensor(name) for name in right.get_variable_to_shape_map() if "_power" not in name}
    powers = {}
    for template, owner in FORMER[num_ps, update].items():
        for number in (1, 2):
            values[template.format(number)] = powers[owner, number] = np.float32(len(powers) + 1)
    with tf.Graph().as_default(), v1.Session() as session:
        prefix, names = f"{former}/model.ckpt-2", list(values)
        session.run(tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=[values[n] for n in names]
        ))  # fmt: skip
    for restoring in (num_ps, 3 - num_ps):
        again = cluster_of(program, former, restoring, update=update, partition_bytes=64)
        assert again.start(restore=True) == 2
        for entry in again.steps[0].ps.entries:
            if "_power" in entry.key:
                ps, number = ps_index(entry.variable), 1 + ("beta2" in entry.key)
                second = " second" if entry.key.endswith("_1") else ""
                own = min(ps, num_ps - 1) if update != "sync" else ps if ps < num_ps else 0
                assert again.sessions[0].run(entry.variable) == powers[f"{own}{second}", number], entry
    if (num_ps, update) != (2, "async"):
        alone = in_one_session(program, 0, f"{former}/model.ckpt-2", saver_of=DefaultSaver)
        assert [alone[f"training/beta{n}_power{end}"] for end in ("", "_1") for n in (1, 2)] == [1, 2, 3, 4]
        check_equal(alone, {name: value for name, value in values.items() if name in alone})
