"""The variables of a SavedModel come from a checkpoint, without a session."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.saved.export.checkpoint_copier import CheckpointCopier
from ps_train.saved.values import hash_of_values, open_saved

VALUES = {"w": np.arange(6, dtype=np.float32).reshape(3, 2), "step": np.int64(7), "not in the model": np.float32(1)}


@pytest.fixture
def checkpoint(tmp_path: pathlib.Path) -> CheckpointValues:
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "a"), tensor_names=[*VALUES], shape_and_slices=[""] * 3,
        tensors=[tf.constant(value) for value in VALUES.values()],
    )  # fmt: skip
    return CheckpointValues(str(tmp_path / "a"))


def test_a_copy_has_the_models_variables_and_their_hash(checkpoint: CheckpointValues, tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default():
        made = {"w": v1.get_variable("w", [3, 2], use_resource=True)}
        made["step"] = v1.get_variable("step", [], tf.int64, v1.zeros_initializer(), use_resource=True)
        copier = CheckpointCopier(made, checkpoint)
        assert copier.save(None, str(tmp_path / "copy")) == str(tmp_path / "copy")
    content = copier.copy()
    copied = open_saved(str(tmp_path / "copy"))
    assert sorted(copied.values.kinds) == ["step", "w"] and content == hash_of_values(copied.values, {})
    np.testing.assert_array_equal(copied.values.read("w"), VALUES["w"])
    assert copied.values.read("step") == 7


def test_a_checkpoint_of_another_model_is_refused(checkpoint: CheckpointValues) -> None:
    for name, shape in (("w", [2, 3]), ("v", [3, 2])):
        with tf.Graph().as_default(), pytest.raises(ModelError, match=name):
            CheckpointCopier({name: v1.get_variable(name, shape, use_resource=True)}, checkpoint)


def test_a_model_without_variables_has_no_files(checkpoint: CheckpointValues, tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default():
        copier = CheckpointCopier({}, checkpoint)
        copier.save(None, str(tmp_path / "copy"))
    assert len(copier.copy()) == 64 and not (tmp_path / "copy.index").exists()
