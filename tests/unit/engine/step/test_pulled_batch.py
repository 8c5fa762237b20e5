"""What the rest of a step takes from its front, and where a step is not divided."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.copied_nodes import Template
from ps_train.engine.step.pulled_batch import Front

PS, WORKER = "/job:ps/task:0/device:CPU:0", "/job:worker/task:0"


class Step:
    """A batch of ids, whose rows are read on the ps and used with the ids."""

    def __init__(self, ids_of=lambda ids: ids * 2) -> None:
        with tf.device(PS):
            table = v1.get_variable("table", [10, 2], use_resource=True)
            self.value = v1.get_variable("dense", [], use_resource=True).read_value()
        with tf.device(WORKER):
            iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors((tf.range(3), 1.0)))
            self.batch, self.weight = iterator.get_next()
            self.ids, self.index = tf.unique(ids_of(self.batch))
        with tf.device(PS):
            self.rows = tf.identity(table.sparse_read(tf.identity(self.ids)), name="rows")
        with tf.device(WORKER):
            self.used = tf.gather(self.rows * self.value, self.index) * self.weight
        with tf.device(PS):
            self.pushed = tf.group(table.scatter_sub(tf.IndexedSlices(self.rows, self.ids)), self.used)

    def front(self, wanted=()) -> Front:
        step = Template([self.pushed])
        return Front.of(step.inside, [self.value], [self.rows], [self.pushed, *wanted])


def names(tensors) -> set[str]:
    return {tensor.name for tensor in tensors}


def test_the_rest_takes_the_values_the_rows_and_what_the_worker_has_computed_for_them() -> None:
    with tf.Graph().as_default():
        step = Step()
        front = step.front()
        assert front.found[:2] == [step.value, step.rows]
        assert names(front.found[2:]) == names([step.ids, step.index, step.weight])
        assert front.reads_batch and step.batch.op.name in front.on_worker
        assert not {step.rows.op.name, step.used.op.name} & front.on_worker


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_step_of_which_the_front_has_something_that_is_wanted_is_not_divided(is_wanted: bool) -> None:
    with tf.Graph().as_default():
        step = Step()
        front = step.front([step.index.op] if is_wanted else [])
        assert front.reads_batch != is_wanted
        if is_wanted:
            assert front.found == [step.value] and not front.on_worker


def test_a_loop_of_tensorflow_1_is_not_divided() -> None:
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            step = Step(lambda ids: v1.while_loop(lambda n, _: n < 3, lambda n, some: (n + 1, some * 2), [0, ids])[1])
            assert step.front().found == [step.value]
    finally:
        v1.enable_control_flow_v2()


def test_a_step_whose_rest_reads_another_batch_is_not_divided() -> None:
    with tf.Graph().as_default():
        step = Step()
        with tf.device(WORKER):
            other = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(1.0)).get_next()
        step.pushed = tf.group(step.pushed, other)
        assert step.front().found == [step.value]
