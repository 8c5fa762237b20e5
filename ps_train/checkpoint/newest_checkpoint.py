"""The newest checkpoint of a model directory."""

from __future__ import annotations

import tensorflow as tf

from ps_train.checkpoint.files import GLOBAL_STEP
from ps_train.checkpoint.run_checkpoints import newest_checkpoint


def needed_checkpoint(model_dir: str) -> str:
    """Returns the path of the newest checkpoint; raises ValueError if there is none."""
    checkpoint = newest_checkpoint(model_dir)
    if checkpoint is None:
        raise ValueError(f"Couldn't find trained model: model_dir={model_dir} has no checkpoint; train first.")
    return str(checkpoint)


def saved_step(model_dir: str) -> int:
    """Returns the global step of the newest checkpoint; 0 if there is none."""
    checkpoint = newest_checkpoint(model_dir)
    reader = tf.train.load_checkpoint(checkpoint) if checkpoint else None
    return int(reader.get_tensor(GLOBAL_STEP)) if reader and reader.has_tensor(GLOBAL_STEP) else 0
