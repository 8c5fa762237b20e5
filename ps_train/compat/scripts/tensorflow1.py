"""Advice for an error that shows that a program was written for TensorFlow 1.

advice(error)       # "tf.placeholder is TensorFlow 1's: run the program with --compat ...", or ""
"""

from __future__ import annotations

import sys

_MODULES = ("tensorflow.contrib", "tensorflow.examples", "tensorflow.estimator")
_OLD = ("app", "contrib", "estimator", "examples", "flags", "gfile", "layers", "logging")
_EAGER = "is not compatible with eager execution"


def advice(error: BaseException) -> str:
    """Returns one line for the error of a program that was written for TensorFlow 1; "" for another error."""
    name = _name(error)
    return f"{name} is TensorFlow 1's: run the program with `python -m ps_train run --compat`." if name else ""


def _name(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"the module {error.name}" if (error.name or "").startswith(_MODULES) else ""
    if isinstance(error, AttributeError):
        module, own = getattr(error.obj, "__name__", ""), error.name or ""
        if not module.startswith("tensorflow") or "tensorflow" not in sys.modules:
            return ""
        v1 = sys.modules["tensorflow"].compat.v1
        inner = module.removeprefix("tensorflow").removeprefix("._api.v2").strip(".")
        home = getattr(v1, inner, None) if inner else v1
        is_old = not inner and own in _OLD
        return f"tf.{inner}{'.' if inner else ''}{own}" if is_old or hasattr(home, own) else ""
    return str(error).partition(" ")[0] if isinstance(error, RuntimeError) and _EAGER in str(error) else ""
