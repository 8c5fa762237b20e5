"""The modules of contrib: data, names that are absent."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib import make_contrib


class Estimator:
    """Stands for the module tf.estimator."""

    add_metrics = staticmethod(lambda: "metrics")

    class experimental:
        stop_if_no_decrease_hook = staticmethod(lambda: "hook")

    class ModeKeys:
        TRAIN = "train"


CONTRIB = make_contrib(lambda: Estimator)


@pytest.mark.parametrize("name", ["parallel_interleave", "sloppy_interleave"])
def test_interleaved_data_have_every_element(run, name):
    files = v1.data.Dataset.range(3)
    transform = getattr(CONTRIB.data, name)(lambda n: v1.data.Dataset.from_tensors(n).repeat(2), cycle_length=2)
    batch = v1.data.make_one_shot_iterator(files.apply(transform).batch(6)).get_next()
    assert sorted(run(batch).tolist()) == [0, 0, 1, 1, 2, 2]


def test_data_are_mapped_shuffled_and_repeated(run):
    data = v1.data.Dataset.range(4).apply(CONTRIB.data.shuffle_and_repeat(4, 2))
    batch = v1.data.make_one_shot_iterator(data.apply(CONTRIB.data.map_and_batch(lambda n: n * 10, 8))).get_next()
    assert sorted(run(batch).tolist()) == [0, 0, 10, 10, 20, 20, 30, 30]


def test_names_of_estimator_are_found_there():
    assert CONTRIB.estimator.add_metrics() == "metrics"
    assert CONTRIB.estimator.stop_if_no_decrease_hook() == "hook"
    assert CONTRIB.learn.ModeKeys.TRAIN == "train"


def test_the_global_step_is_tensorflows(run):
    step = CONTRIB.framework.get_or_create_global_step()
    assert CONTRIB.framework.get_global_step() is step
    assert CONTRIB.framework.get_variables() == [step]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("", "distribute"),
        ("tpu", "CrossShardOptimizer"),
        ("layers", "no_such_layer"),
        ("estimator", "SVM"),
        ("data", "no_such_transformation"),
    ],
)
def test_an_absent_name_is_refused_in_one_line(module, name):
    owner = getattr(CONTRIB, module) if module else CONTRIB
    with pytest.raises(AttributeError, match=rf"^tf\.contrib\.({module}\.)?{name} is not in this TensorFlow.*: .*\.$"):
        getattr(owner, name)
