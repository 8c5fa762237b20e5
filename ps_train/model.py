"""What the user writes: a Model says where the data are, how to compute outputs and a loss, and how to learn.

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

import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ps_train.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import tensorflow as tf

    from ps_train.data.arrays import Arrays
    from ps_train.data.stream import Stream


class Model:
    """Base class.  `data`, `forward` and `loss` must be written; the rest has defaults."""

    default_optimizer = "sgd"
    default_learning_rate = 0.1

    def data(self, split: str, data_dir: str) -> Arrays | tf.data.Dataset | Stream:
        """All examples of a split, "train" or "test": neither sharded, shuffled, repeated nor batched.

        Returns `Arrays(features, labels)` for data that fit into memory, a `Stream` for files that are read while they
        are trained on, or a `tf.data.Dataset` of single `(features, labels)` examples.  Features may be one array or a
        dict of arrays.  A model without test data returns None for "test".
        """
        raise NotImplementedError

    def forward(self, features: Any, training: bool) -> Any:
        """Outputs for a batch of features; docs/MODELS.md says what they may be made of."""
        raise NotImplementedError

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """A scalar to make small: the *mean* over the batch, so that workers' gradients can be averaged."""
        raise NotImplementedError

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Names to `(value, update)` pairs, as `tf.compat.v1.metrics` makes them; evaluated on the test split.

        What they keep in variables of METRIC_VARIABLES are to be sums over the examples, as TensorFlow's are: workers
        score shares of the test split, and sums are added up.  Where there are other local variables the chief scores
        alone."""
        return {}

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """What an exported model returns, by name; without it the outputs as they are."""
        return outputs if isinstance(outputs, Mapping) else {"outputs": outputs}

    def optimizer(
        self, name: str, learning_rate: float
    ) -> tf.compat.v1.train.Optimizer | Mapping[str, tf.compat.v1.train.Optimizer]:
        """Called once for each ps, on its device, with --optimizer and --learning_rate or the model's defaults.

        Several optimizers are returned as a dict: each is for the variables and tables whose names begin with its key,
        of several keys the longest; "" is for the rest.
        """
        return make_optimizer(name, learning_rate)


def make_optimizer(name: str, learning_rate: float) -> tf.compat.v1.train.Optimizer:
    """The optimizer of that name (`config.OPTIMIZERS`), its other parameters at TensorFlow's defaults."""
    import tensorflow as tf

    from ps_train import optimizers

    train = tf.compat.v1.train
    makers = {
        "sgd": train.GradientDescentOptimizer,
        "momentum": lambda rate: train.MomentumOptimizer(rate, momentum=0.9),
        "adam": train.AdamOptimizer,
        "adagrad": optimizers.Adagrad,
        "ftrl": train.FtrlOptimizer,
        "rmsprop": train.RMSPropOptimizer,
        "lazy_adam": optimizers.LazyAdam,
        "rowwise_adagrad": optimizers.RowWiseAdagrad,
    }
    if name not in makers:
        raise ConfigError(f"optimizer={name} is not valid: use one of {', '.join(makers)}.")
    return makers[name](learning_rate)


def load_model(path: str, arguments: Mapping[str, str]) -> Model:
    """An instance of `package.module:Class`, its constructor given the arguments, converted as it annotates them.

    Raises ModelError for what is wrong with path or arguments; an exception of the user's own code passes through.
    """
    found = _load_class(path)
    try:
        accepted = dict(inspect.signature(found).parameters)
    except ValueError:
        accepted = {}
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    named = {name: p for name, p in accepted.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for name in arguments:
        if name not in named and not open_ended:
            raise ModelError(f"model_arg {name} is no argument of {path}: it takes {', '.join(named) or 'none'}.")
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ModelError(f"{path} needs the argument {name}: give it with --model_arg={name}=VALUE.")
    values = {name: _convert(name, text, named.get(name), path) for name, text in arguments.items()}
    return found(**values)


def _load_class(path: str) -> Any:
    module_name, colon, class_name = path.partition(":")
    if not colon or not all(name.isidentifier() for name in [*module_name.split("."), class_name]):
        raise ModelError(f"model={path} is not of the form package.module:Class.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a console script, unlike python -m, does not look in the working directory
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # the user's module was found, and needs something that is not there
        raise ModelError(
            f"model={path}: there is no module {error.name!r} (looked in the working directory and in sys.path)."
        ) from None
    found = getattr(module, class_name, None)
    if found is None:
        classes = [name for name, value in vars(module).items() if _is_model(value)]
        raise ModelError(
            f"model={path}: {module_name} has no {class_name!r}; its models: {', '.join(classes) or 'none'}."
        )
    if not _is_model(found):
        raise ModelError(f"model={path}: {class_name} is not a subclass of ps_train.Model.")
    return found


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Model) and value is not Model


def _convert(name: str, text: str, parameter: inspect.Parameter | None, path: str) -> Any:
    annotation = getattr(parameter, "annotation", "")
    annotation = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    words = annotation.replace("Optional[", "").replace("]", "").split("|")
    kind = next((kind for kind in (bool, int, float) if kind.__name__ in map(str.strip, words)), str)
    if kind is bool:
        if text.lower() in ("true", "1", "yes"):
            return True
        if text.lower() in ("false", "0", "no"):
            return False
    elif kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    else:
        return text
    raise ModelError(f"model_arg {name}={text} is not valid for {path}: use {kind.__name__}.")
