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

import dis
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
    """Base class of models.  A subclass must define `data`, `forward` and `loss`; the rest has defaults.

    Attributes:
      default_optimizer: name of the optimizer without --optimizer.
      default_learning_rate: learning rate without --learning_rate.
    """

    default_optimizer = "sgd"
    default_learning_rate = 0.1

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
        """Returns the outputs for a batch of features; docs/MODELS.md lists the operations that are possible.

        Args:
          features: tensor or dict of tensors, [batch, ...].
          training: True in training, False in evaluation and export.
        """
        raise NotImplementedError

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss to minimize, a float scalar.

        It must be the *mean* over the batch, because workers' gradients are averaged.
        """
        raise NotImplementedError

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns name to `(value, update)` pair, as made by `tf.compat.v1.metrics`; evaluated on the test split.

        Variables in METRIC_VARIABLES must hold sums over examples, as TensorFlow's do.  Workers evaluate shards of the
        test split, and these sums are added up.  If metrics make other local variables, the chief evaluates alone.
        """
        return {}

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """Returns the outputs of an exported model by name; by default the outputs of `forward`."""
        return outputs if isinstance(outputs, Mapping) else {"outputs": outputs}

    def optimizer(
        self, name: str, learning_rate: float
    ) -> tf.compat.v1.train.Optimizer | Mapping[str, tf.compat.v1.train.Optimizer]:
        """Makes the optimizer, once for each ps, on the device of that ps.

        Args:
          name: --optimizer or the model's default.
          learning_rate: --learning_rate or the model's default.

        Returns:
          One optimizer, or a dict of several.  An optimizer of a dict updates the variables and tables whose names
          begin with its key.  If several keys match, the longest one counts; "" matches all names.
        """
        return make_optimizer(name, learning_rate)


def make_optimizer(name: str, learning_rate: float) -> tf.compat.v1.train.Optimizer:
    """Makes the optimizer of a name, with TensorFlow's defaults for its other parameters.

    Args:
      name: one of the names that --optimizer accepts.
      learning_rate: the learning rate.

    Raises:
      ConfigError: there is no optimizer of this name.
    """
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
    """Makes an instance of the user's model.

    Args:
      path: `package.module:Class`.
      arguments: name to text; converted to the types that the constructor's parameters are annotated with.

    Raises:
      ModelError: path or arguments are wrong.  An exception of the user's own code passes through.
    """
    model_class = _load_class(path)
    try:
        parameters = dict(inspect.signature(model_class).parameters)
    except ValueError:
        parameters = {}
    has_kwargs = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    named = {name: p for name, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for name in arguments:
        if name not in named and not has_kwargs:
            raise ModelError(f"model_arg {name} is not an argument of {path}: it takes {', '.join(named) or 'none'}.")
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ModelError(f"{path} needs the argument {name}: give it with --model_arg={name}=VALUE.")
    values = {name: _convert(name, text, named.get(name), path) for name, text in arguments.items()}
    return model_class(**values)


def ignores_data_dir(model: Model) -> bool:
    """Returns True if the model's `data` certainly does not read its argument `data_dir`: no instruction loads it."""
    code = getattr(inspect.unwrap(type(model).data), "__code__", None)
    if code is None or code.co_argcount < 3:
        return False
    name = code.co_varnames[2]
    if name in code.co_cellvars or {"locals", "vars", "eval"} & set(code.co_names):
        return False
    loads = [step.argval for step in dis.get_instructions(code) if step.opname.startswith("LOAD_FAST")]
    return not any(name == value or (isinstance(value, tuple) and name in value) for value in loads)


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
            raise  # the user's module exists, but one of its imports is missing
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
