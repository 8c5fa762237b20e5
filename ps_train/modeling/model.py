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
import numbers
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ps_train.base.errors import ConfigError, ModelError, PsTrainError
from ps_train.base.user_code import describe, line_of, shown, user_code
from ps_train.config.model_arguments import convert_arguments, missing_module, split_model_path
from ps_train.config.optimizer_arguments import OptimizerName, values_of
from ps_train.modeling.file_check import add_working_directory

if TYPE_CHECKING:
    import tensorflow as tf

    from ps_train.data.arrays import Arrays
    from ps_train.data.stream import Stream


SUMS = "ps_train/sums"
"""Key of a collection: for each build of a model, what the batch adds to its `sums`, float32 [sums]."""


class Model:
    """Base class of models.  A subclass must define `data`, `forward` and `loss`; the rest has defaults.

    Attributes:
      default_optimizer: name of the optimizer without --optimizer.
      default_learning_rate: learning rate without --learning_rate.
      hooks_every_step: True if the hooks must run at every step, which is slower.
      gives_advice: True to end a run with lines that say how to continue it.
      refused_flags: name of each flag that is not possible with the model to the reason, and what to do.
      has_epochs: True if the chief works at the multiples of --save_steps, while the other workers wait.
      sums: number of values that all workers add up, from what each batch adds to the collection SUMS.
    """

    default_optimizer = "sgd"
    default_learning_rate = 0.1
    sums = 0
    has_epochs = False
    hooks_every_step = False
    gives_advice = True
    refused_flags: Mapping[str, str] = {}

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

    def epochs(self) -> Any:
        """Returns what the chief tells the ends of epochs (`training/duties/epochs.py`); None for nothing."""
        return None

    def takers(self) -> Sequence[Any]:
        """Returns functions that a worker other than the chief calls with the values on the ps when the job is done."""
        return []

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


def load_model(path: str, arguments: Mapping[str, str], sources: Mapping[str, str] | None = None) -> Model:
    """Makes an instance of the user's model.

    Args:
      path: `package.module:Class`, or `package.module:function` for a function that returns a compiled Keras model.
      arguments: name to text; converted to the types that the parameters are annotated with.
      sources: `name=text` to the source of an argument, for errors.

    Raises:
      ModelError: path, arguments or methods are wrong, or the user's own code cannot be imported or constructed.
    """
    maker = _load_maker(path)
    try:
        parameters = dict(inspect.signature(maker).parameters)
    except ValueError:
        parameters = {}
    values = convert_arguments(path, parameters, arguments, sources or {})
    with user_code(f"{maker.__name__}()"):
        model = maker(**values)
    if not isinstance(maker, type):
        model = _made_by_function(path, model)
    check_methods(model)
    return model


def _made_by_function(path: str, made: Any) -> Model:
    """Returns the model that the function of a path made; of a Keras model, with the function `data` of the module."""
    if isinstance(made, Model):
        return made
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(made, keras.Model):
        raise ModelError(
            f"model={path}: the function returned {shown(made)}: return a compiled keras.Model, or name a subclass of "
            "ps_train.Model."
        )
    from ps_train.modeling.keras.keras_model import KerasModel  # late: most jobs have no Keras model

    return KerasModel(made, getattr(load_module(path), "data", None))


_METHODS = {
    "data": ("split", "data_dir"),
    "forward": ("features", "training"),
    "loss": ("outputs", "labels"),
    "metrics": ("outputs", "labels"),
    "predictions": ("outputs",),
    "optimizer": ("name", "learning_rate"),
    "compute_gradients": ("loss", "variables"),
    "hooks": (),
    "saving_listeners": (),
}
"""Arguments of each method, which are given by position."""


def check_methods(model: Model) -> None:
    """Checks that a model has all methods, and that they take their arguments; raises ModelError."""
    kind = type(model).__name__
    for name, arguments in _METHODS.items():
        method, usual = getattr(model, name), f"def {name}(self, {', '.join(arguments)})"
        if getattr(method, "__func__", None) is getattr(Model, name) and name in ("data", "forward", "loss"):
            raise ModelError(f"{kind} has no method {name}(): define {usual}.")
        if not callable(method):
            raise ModelError(f"{kind}.{name} is {shown(method)}, not a method: define {usual}.")
        try:
            inspect.signature(method).bind(*arguments)
        except ValueError:  # it has no signature
            continue
        except TypeError:
            found = f"{name}{inspect.signature(method)}"
            raise ModelError(f"{kind}.{found} does not take {len(arguments)} arguments: use {usual}.") from None
        if inspect.iscoroutinefunction(method):
            raise ModelError(f"{kind}.{name}() is async, which is not supported: use {usual}.")
    if not isinstance(model.default_optimizer, str):
        raise ModelError(f"{kind}.default_optimizer is {shown(model.default_optimizer)}: use a name such as 'adam'.")
    rate = model.default_learning_rate
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 < rate < float("inf"):
        raise ModelError(f"{kind}.default_learning_rate is {shown(rate)}: use a number above 0.")


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


def load_module(path: str) -> Any:
    """Returns the module of a model, `package.module:Class`; raises ModelError if it cannot be imported."""
    module_name, _ = split_model_path(path)
    add_working_directory()
    try:
        return importlib.import_module(module_name)
    except PsTrainError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (module_name + ".").startswith(missing + "."):
            raise missing_module(path, missing) from None
        raise _error_of_user(f"model={path} cannot be imported", error) from error


def _load_maker(path: str) -> Any:
    """Returns what makes the model: a subclass of Model, or a function."""
    module, (module_name, name) = load_module(path), split_model_path(path)
    found = getattr(module, name, None)
    if found is None:
        classes = [name for name, value in vars(module).items() if _is_model(value)]
        raise ModelError(f"model={path}: {module_name} has no {name!r}; its models: {', '.join(classes) or 'none'}.")
    if not _is_model(found) and not inspect.isfunction(found):
        raise ModelError(f"model={path}: {name} is not a subclass of ps_train.Model.")
    return found


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Model) and value is not Model


def _error_of_user(what: str, error: BaseException) -> ModelError:
    """Returns an exception of the user's own code as an error with the file and line where it came from."""
    if isinstance(error, SyntaxError):
        return ModelError(f"{what}: {type(error).__name__}: {error.msg} ({line_of(error)}).")
    return ModelError(f"{what}: {describe(error)}.")
