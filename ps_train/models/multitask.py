"""Several tasks in one model, by experts that tasks share (MMoE) or have for themselves (PLE).  Recipes to copy.

    python -m ps_train --model=ps_train.models.multitask:Mmoe --batch_size=128 --max_steps=1000
    python -m ps_train --model=ps_train.models.multitask:Ple --batch_size=128 --model_arg=weights=1,0.5

See Ma et al. 2018, "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", and Tang et
al. 2020, "Progressive Layered Extraction (PLE)".  Labels, outputs and metrics are dicts with the tasks' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train import Arrays, Model, ModelError, metrics
from ps_train.models.layers import experts, gated, perceptron

__all__ = ["Mmoe", "Ple", "planted"]

TASKS, WIDTH = ("click", "like"), 10


def planted(split: str, examples: int = 30_000) -> tuple[np.ndarray[Any, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Returns features float32 [examples, 10], the labels of both tasks, and the logits by which they were drawn.

    Both tasks share one curve of a hidden direction; each has another one of its own.
    """
    hidden = np.linalg.qr(np.random.default_rng(6).normal(size=(WIDTH, WIDTH)))[0]
    random = np.random.default_rng(1 if split == "train" else 2)
    x = random.normal(size=(examples if split == "train" else examples // 4, WIDTH))
    shared, click, like = (x @ hidden[:, :3]).T
    logits = {"click": 3 * np.sin(2 * shared) + 2 * click, "like": 3 * np.sin(2 * shared) - 3 * np.abs(like) + 1}
    labels = {name: (random.random(len(x)) < 1 / (1 + np.exp(-z))).astype(np.float32) for name, z in logits.items()}
    return x.astype(np.float32), labels, logits


class Mmoe(Model):
    """Experts that all tasks share, with a gate and a tower for each task.

    Args:
      count: number of experts.
      units: outputs of each expert.
      weights: weights of the tasks' losses, separated by commas.
    """

    default_optimizer, default_learning_rate = "adam", 0.005

    def __init__(self, count: int = 4, units: int = 32, weights: str = "1,1") -> None:
        self.count, self.units = count, units
        self.weights = dict(zip(TASKS, map(float, weights.split(",")), strict=False))
        if weights.count(",") != len(TASKS) - 1:
            raise ModelError(f"weights={weights} is not valid: give a number for each of {', '.join(TASKS)}.")

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns a split of generated data, with a dict of labels."""
        return Arrays(*planted(split)[:2])

    def mixtures(self, features: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns the inputs of each task's tower, [batch, units]."""
        outputs = experts(features, self.count, self.units)
        return {task: gated(features, outputs, f"{task}/gate") for task in TASKS}

    def forward(self, features: tf.Tensor, training: bool) -> Mapping[str, tf.Tensor]:
        """Returns the logits of each task, float32 [batch]."""
        outputs = {}
        for task, inputs in self.mixtures(features).items():
            with tf.compat.v1.variable_scope(f"{task}/tower"):
                outputs[task] = tf.squeeze(perceptron(inputs, [16], outputs=1), 1)
        return outputs

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the weighted sum of the tasks' mean cross-entropies."""
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
        losses = {task: tf.reduce_mean(cross_entropy(labels=labels[task], logits=outputs[task])) for task in TASKS}
        return tf.add_n([self.weights[task] * losses[task] for task in TASKS])

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns the AUC of each task, such as `click_auc`."""
        return {f"{task}_auc": metrics.auc(labels[task], outputs[task]) for task in TASKS}

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """Returns the probability of each task, float32 [batch]."""
        return {task: tf.sigmoid(outputs[task]) for task in TASKS}


class Ple(Mmoe):
    """Two levels of experts: a task's gate sees its own experts and the shared ones, the shared gate sees all."""

    def mixtures(self, features: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns the inputs of each task's tower, [batch, units]."""
        inputs = dict.fromkeys((*TASKS, "shared"), features)
        for level, gates in (("level1", (*TASKS, "shared")), ("level2", TASKS)):
            found = {name: experts(inputs[name], self.count // 2, self.units, f"{level}/{name}") for name in inputs}
            seen = {task: [found[task], found["shared"]] for task in TASKS} | {"shared": list(found.values())}
            inputs = {name: gated(inputs[name], tf.concat(seen[name], 1), f"{level}/{name}_gate") for name in gates}
        return inputs
