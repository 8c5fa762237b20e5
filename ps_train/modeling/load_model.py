"""The model that --model names: a class, or a function that returns a compiled Keras model.

model = load_model("net:Net", {"width": "64"})
use_flags(model, job)
"""

from __future__ import annotations

import dis
import importlib
import inspect
import numbers
import sys
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError, ModelError, PsTrainError
from ps_train.base.user_code import describe, line_of, shown, user_code
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.model_arguments import convert_arguments, missing_module, split_model_path
from ps_train.config.refusals import is_given
from ps_train.modeling.file_check import add_working_directory
from ps_train.modeling.model import Model


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


def use_flags(model: Model, job: Job) -> None:
    """Gives a model the flags of a job; raises ConfigError for the first one that is not possible with it."""
    for name, reason in model.refused_flags.items():
        if is_given(job, name):
            raise ConfigError(f"{described(job, name)} is not possible with {type(model).__name__}: {reason}.")
    model.use_flags(job)


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
