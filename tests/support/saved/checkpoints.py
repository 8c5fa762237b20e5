"""Checkpoints: all values of one, and a model directory with good, damaged, foreign and rolled back ones."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.run_directory.checkpoint_contents import RUN_KEY
from ps_train.engine.run_directory.run_record import begin_generation, write_run_id


def read_values(checkpoint: str) -> dict[str, np.ndarray]:
    """Returns all values of a checkpoint."""
    reader = tf.train.load_checkpoint(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write_checkpoint(directory: pathlib.Path, step: int, run: str = "mine", generation: str = "b") -> pathlib.Path:
    """Writes one as the chief does: `w` has the value of the step."""
    path = directory / f"model.ckpt-{step}"
    with tf.Graph().as_default(), v1.Session() as session:
        names = ["global_step", "w", RUN_KEY]
        tensors = [tf.constant(step, tf.int64), tf.fill([8], float(step)), tf.constant([run, generation])]
        if not run:
            names, tensors = names[:2], tensors[:2]
        session.run(tf.raw_ops.SaveV2(
            prefix=str(path), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
        ))  # fmt: skip
    return path


def mixed_directory(directory: pathlib.Path) -> pathlib.Path:
    """Its newest good checkpoint is that of step 20; TensorFlow's list names a damaged one as the newest."""
    write_run_id(str(directory), "mine")
    begin_generation(str(directory), "a", 0)
    begin_generation(str(directory), "b", 10)
    write_checkpoint(directory, 10, generation="a")
    good = write_checkpoint(directory, 20)
    short, flipped = (pathlib.Path(f"{write_checkpoint(directory, step)}.data-00000-of-00001") for step in (30, 35))
    short.write_bytes(short.read_bytes()[:5])
    content = bytearray(flipped.read_bytes())
    content[9] ^= 0xFF
    flipped.write_bytes(content)
    write_checkpoint(directory, 40, run="another")
    write_checkpoint(directory, 50, generation="a")  # rolled back: the next generation began at step 10
    write_checkpoint(directory, 60, run="")  # not in TensorFlow's list
    names = [f'all_model_checkpoint_paths: "model.ckpt-{step}"' for step in (10, 20, 30)]
    (directory / "checkpoint").write_text("\n".join(['model_checkpoint_path: "model.ckpt-30"', *names]) + "\n")
    return good
