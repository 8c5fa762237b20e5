"""The learning rate when workers are added: python examples/more_workers.py

Trains the shipped digits on as many examples with 1, 2, 4 and 8 workers, at the rate of one worker and at that rate
times the workers.  The last row has the largest rate after a warm-up.
"""

import math

import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train.models.digits import Digits

EXAMPLES, BATCH, RATE = 40_000, 32, 0.2


class DigitsWithLoss(Digits):
    """The digits with the test loss among the metrics: it shows more than the accuracy."""

    def metrics(self, outputs, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
        return {**super().metrics(outputs, labels), "loss": v1.metrics.mean(losses)}


def row(update, workers, factor, warmup_steps=0):
    """Trains one job, and prints its row."""
    batch = BATCH * (workers if update == "sync" else 1)  # of one update
    flags = {"update": update, "num_workers": workers, "batch_size": BATCH, "max_steps": EXAMPLES // batch}
    flags |= {"optimizer": "sgd", "learning_rate": RATE * factor, "warmup_steps": warmup_steps}
    accuracy = loss = math.nan
    staleness = ""
    try:
        result = ps_train.fit(DigitsWithLoss, quiet=True, **flags)
        accuracy, loss = result.metrics["accuracy"], result.metrics["loss"]
        staleness = f"{result.values['staleness']['mean']:.2f}" if update == "async" else ""
    except ps_train.TrainingError:
        pass  # the loss became infinite
    numbers = f"{workers:7}  {batch:5}  {EXAMPLES // batch:5}  {RATE * factor:4.1f}  {warmup_steps:7}"
    print(f"{update:6}  {numbers}  {accuracy:8.3f}  {loss:9.3f}  {staleness:>9}", flush=True)


def main():
    print("update  workers  batch  steps  rate  warm-up  accuracy  test loss  staleness", flush=True)
    row("sync", 1, 1)
    for update in ("sync", "async"):
        for workers in (2, 4, 8):
            row(update, workers, 1)
            row(update, workers, workers)
    row("sync", 8, 8, warmup_steps=40)


if __name__ == "__main__":
    main()
