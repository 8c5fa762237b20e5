"""ESMM: conversions after a click, learned from all impressions and not from the clicked ones alone.  A recipe to copy.

    python -m ps_train --model=ps_train.models.esmm:Esmm --batch_size=128 --max_steps=1000

See Ma et al. 2018, "Entire Space Multi-Task Model: An Effective Approach for Estimating Post-Click Conversion Rate".  A
conversion is seen only after a click.  P(click and conversion) = P(click) P(conversion | click) can be learned from all
impressions, so its second factor is not biased by which impressions are clicked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings, metrics
from ps_train.models.layers import perceptron

__all__ = ["Esmm", "planted"]

USERS, ITEMS = 100, 100


def planted(split: str, examples: int = 40_000) -> tuple[Mapping[str, Any], Mapping[str, Any], np.ndarray[Any, Any]]:
    """Returns features, labels, and the logits of a conversion after a click.

    Users who click often buy seldom, so clicked impressions are no fair sample.  `would_convert` is a conversion as if
    every impression were clicked.  Real data do not have it, and only the metrics use it.
    """
    hidden = np.random.default_rng(7)
    users, items = hidden.normal(size=(USERS, 2)), hidden.normal(size=(ITEMS, 2))
    random = np.random.default_rng(1 if split == "train" else 2)
    count = examples if split == "train" else examples // 4
    user, item = random.integers(0, USERS, count), random.integers(0, ITEMS, count)
    clicked = users[user, 0] + items[item, 0] - 0.5
    bought = users[user, 1] - users[user, 0] + 1.5 * items[item, 1]
    click, would = (random.random(count) < 1 / (1 + np.exp(-logits)) for logits in (clicked, bought))
    labels = {"click": click, "conversion": click & would, "would_convert": would}
    return {"user": user, "item": item}, {name: of.astype(np.float32) for name, of in labels.items()}, bought


class Esmm(Model):
    """Two towers on shared tables: of a click, and of a conversion after it.

    Args:
      dimension: dimension of the vectors.
      click_weight: weight of the clicks' loss; that of the conversions is 1.
    """

    default_optimizer, default_learning_rate = "lazy_adam", 0.01

    def __init__(self, dimension: int = 4, click_weight: float = 1.0) -> None:
        self.dimension, self.click_weight = dimension, click_weight

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns a split of generated data, with a dict of labels."""
        return Arrays(*planted(split)[:2])

    def forward(self, features: Any, training: bool) -> Mapping[str, tf.Tensor]:
        """Returns the logits of a click and of a conversion after a click, float32 [batch]."""
        initializer = v1.random_normal_initializer(stddev=0.1)
        vectors = [
            embeddings.lookup(f"{name}s", features[name], rows=rows, dimension=self.dimension, initializer=initializer)
            for name, rows in (("user", USERS), ("item", ITEMS))
        ]
        outputs = {}
        for task in ("click", "conversion"):
            with v1.variable_scope(task):
                outputs[task] = tf.squeeze(perceptron(tf.concat(vectors, 1), [16], outputs=1), 1)
        return outputs

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the mean cross-entropies of a click, and of a click with a conversion, over all impressions."""
        click, conversion = outputs["click"], outputs["conversion"]
        clicks = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels["click"], logits=click)
        log_both = tf.math.log_sigmoid(click) + tf.math.log_sigmoid(conversion)
        log_none = tf.math.log1p(-tf.exp(tf.minimum(log_both, -1e-6)))
        both = -labels["conversion"] * log_both - (1 - labels["conversion"]) * log_none
        return tf.reduce_mean(self.click_weight * clicks + both)

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns `click_auc`, and `conversion_auc` over all impressions, clicked or not."""
        return {
            "click_auc": metrics.auc(labels["click"], outputs["click"]),
            "conversion_auc": metrics.auc(labels["would_convert"], outputs["conversion"]),
        }

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """Returns the probabilities of a `click`, a `conversion` after it, and `both`, float32 [batch]."""
        click, conversion = tf.sigmoid(outputs["click"]), tf.sigmoid(outputs["conversion"])
        return {"click": click, "conversion": conversion, "both": click * conversion}
