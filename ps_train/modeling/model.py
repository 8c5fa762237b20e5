"""The base class of the user's models: data, outputs, loss, metrics and optimizer.

    class Linear(ps_train.Model):
        def data(self, split, data_dir):
            return ps_train.Arrays(x[split], y[split])
        def forward(self, features, training):
            w = tf.compat.v1.get_variable("w", [4, 1])
            return features @ w
        def loss(self, outputs, labels):
            return tf.reduce_mean(tf.square(outputs - labels))

A model knows nothing of ps, workers, sessions or steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ps_train.base.errors import ConfigError
from ps_train.config.optimizer_arguments import OptimizerName, values_of

if TYPE_CHECKING:
    import tensorflow as tf

    from ps_train.config.job import Job
    from ps_train.data.arrays import Arrays
    from ps_train.data.stream import Stream


SUMS = "ps_train/sums"
"""Key of a collection: for each build of a model, what the batch adds to its `sums`, float32 [sums]."""


RATE_KEY = "learning_rate"
"""Name of the variable of an optimizer that has its learning rate, where that may be changed from outside."""


SKIPPED = "ps_train/skipped"
"""Key of a collection: for each build of a model with `may_skip`, True (bool scalar) if the batch makes no update."""


ENDED = "ps_train/ended"
"""Key of a collection: for each build of a model with `ends_itself`, True (bool scalar) if there was no batch."""


class Model:
    """Base class of models.  A subclass must define `data`, `forward` and `loss`; the rest has defaults.

    Attributes:
      default_optimizer: name of the optimizer without --optimizer.
      default_learning_rate: learning rate without --learning_rate.
      hooks_every_step: True if the hooks must run at every step, which is slower.
      gives_advice: True to end a run with lines that say how to continue it.
      refused_flags: name of each flag that is not possible with the model to the reason, and what to do.
      may_skip: True if some batches make no update, as the collection SKIPPED tells.
      ends_itself: True if a step of the model may find that the input has ended, as the collection ENDED tells.
      has_epochs: True if the chief works at the multiples of --save_steps, while the other workers wait.
      sums: number of values that all workers add up, from what each batch adds to the collection SUMS.
    """

    default_optimizer = "sgd"
    default_learning_rate = 0.1
    sums = 0
    has_epochs = False
    may_skip = False
    ends_itself = False
    hooks_every_step = False
    gives_advice = True
    refused_flags: ClassVar[Mapping[str, str]] = {"keras_tables": "it is for Keras models"}

    def data(self, split: str, data_dir: str) -> Arrays | tf.data.Dataset | Stream:
        """Returns all examples of a split, not sharded, shuffled, repeated or batched.

        Args:
          split: "train" or "test".
          data_dir: the job's --data_dir.

        Returns:
          `Arrays(features, labels)` for data that fit into memory, a `Stream` for files that are read during training,
          or a `tf.data.Dataset` of single `(features, labels)` examples.  Features may be one array or a dict of
          arrays.  A model without test data returns None for "test".
        """
        raise NotImplementedError

    def forward(self, features: Any, training: bool) -> Any:
        """Returns the outputs for a batch of features; help: models#mistakes lists what is not possible.

        Args:
          features: tensor or dict of tensors, [batch, ...].
          training: True in training, False in evaluation and export.
        """
        raise NotImplementedError

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss to minimize, a float scalar.

        It must be the *mean* over the batch, because workers' gradients are averaged.

        Args:
          outputs: the outputs of `forward`.
          labels: tensor, [batch, ...].
        """
        raise NotImplementedError

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns name to `(value, update)` pair, as made by `tf.compat.v1.metrics`; evaluated on the test split.

        Workers evaluate shards of the test split.  Variables in METRIC_VARIABLES that are sums over examples, as
        TensorFlow's are, or maxima or minima, are put together, and the rows of `ps_train.metrics`.  If metrics make
        other local variables, or assign other values, the chief evaluates alone.  With --eval_by this is called again
        for each part of the test split, with the part's rows of outputs and labels.

        Args:
          outputs: the outputs of `forward`.
          labels: tensor, [batch, ...].
        """
        return {}

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """Returns the outputs of an exported model by name; by default the outputs of `forward`.

        Args:
          outputs: the outputs of `forward` for the features of a request.
        """
        return outputs if isinstance(outputs, Mapping) else {"outputs": outputs}

    def optimizer(
        self, name: str, learning_rate: Any
    ) -> tf.compat.v1.train.Optimizer | Mapping[str, tf.compat.v1.train.Optimizer]:
        """Makes the optimizer, once for each ps, on the device of that ps.

        Args:
          name: --optimizer or the model's default.  `super().optimizer(name, learning_rate)` makes it with the
            arguments of --optimizer_arg.
          learning_rate: a float, --learning_rate or the model's default.  Where it depends on the update, it is a
            float32 scalar tensor.

        Returns:
          One optimizer, or a dict of several.  An optimizer of a dict updates the variables and tables whose names
          begin with its key.  If several keys match, the longest one counts; "" matches all names.
        """
        return make_optimizer(name, learning_rate)

    def compute_gradients(self, loss: tf.Tensor, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradient for each variable: a tensor, IndexedSlices, or None to leave the variable as it is.

        Args:
          loss: the loss of `loss`.
          variables: name to the value from which `loss` was computed; for a table, to the rows that were looked up.
        """
        import tensorflow as tf

        return dict(zip(variables, tf.gradients(loss, list(variables.values())), strict=True))

    def hooks(self) -> Sequence[tf.compat.v1.train.SessionRunHook]:
        """Makes hooks for the training session of this worker, in the training graph.

        A hook may fetch tensors that forward() and loss() have made.  It runs several times a second, not at each step,
        unless `hooks_every_step` is True.  If a hook of the chief calls `request_stop`, the job ends with a checkpoint.
        If a hook of another worker does, that worker makes no more steps.
        """
        return []

    def epochs(self) -> Sequence[Any]:
        """Returns what is told the ends of epochs in the chief, and the last values (`training/duties/epochs.py`)."""
        return []

    def use_flags(self, job: Job) -> None:
        """Takes the flags that are for models of this kind; called before the model is built."""

    def notes(self) -> Sequence[str]:
        """Returns lines that the chief writes before it trains; called after the model has been built."""
        return []

    def slot_values(self) -> Mapping[str, Any]:
        """Returns what slots begin with that do not begin with one number: numpy, by their keys in checkpoints.

        It is called after the model has been built.
        """
        return {}

    def saved_values(self, path: str, flag: str) -> Mapping[str, Any] | None:
        """Returns the values in a file of the model's own format, numpy, by the names of variables and slots.

        Args:
          path: --warm_start.
          flag: the flag with its value and source, for errors.

        Returns:
          The values; {} if the model was not traced yet; None for files of another format.
        """
        return None

    def saving_listeners(self) -> Sequence[tf.compat.v1.train.CheckpointSaverListener]:
        """Makes listeners, whose methods the chief calls before and after it writes each checkpoint, and at the end.

        They are called in the thread that writes.  If `after_save` of one returns True, the job ends.
        """
        return []


def make_optimizer(name: str, learning_rate: float) -> tf.compat.v1.train.Optimizer:
    """Makes the optimizer of a name, with the arguments of --optimizer_arg and the defaults of the others.

    Args:
      name: one of the names that --optimizer accepts; an `OptimizerName` brings the arguments along.
      learning_rate: a float, or a float32 scalar tensor.

    Raises:
      ConfigError: there is no optimizer of this name, or it does not take an argument.
    """
    import tensorflow as tf

    from ps_train.modeling import optimizers

    train = tf.compat.v1.train
    makers = {
        "sgd": train.GradientDescentOptimizer,
        "momentum": train.MomentumOptimizer,
        "adam": train.AdamOptimizer,
        "adagrad": optimizers.Adagrad,
        "ftrl": train.FtrlOptimizer,
        "rmsprop": train.RMSPropOptimizer,
        "lazy_adam": optimizers.LazyAdam,
        "rowwise_adagrad": optimizers.RowWiseAdagrad,
    }
    if name not in makers:
        raise ConfigError(f"optimizer={name} is not valid: use one of {', '.join(makers)}.")
    given, sources = (name.given, name.sources) if isinstance(name, OptimizerName) else ({}, {})
    values = values_of(name, given, sources)
    if isinstance(name, OptimizerName):
        name.is_used = True
    return makers[name](learning_rate, **values)
