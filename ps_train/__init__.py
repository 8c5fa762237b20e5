"""ps_train: parameter-server training for TensorFlow graphs.

    import ps_train
    class MyModel(ps_train.Model): ...

The names below are all there is for users; each is imported when it is first asked for (PEP 562), so that
`import ps_train` does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Arrays": "ps_train.data.arrays",
    "ConfigError": "ps_train.errors",
    "DataError": "ps_train.errors",
    "FitResult": "ps_train.fitting.fit",
    "Job": "ps_train.config.job",
    "Model": "ps_train.model",
    "ModelError": "ps_train.errors",
    "PsTrainError": "ps_train.errors",
    "RefusedError": "ps_train.errors",
    "Task": "ps_train.config.task",
    "TrainingError": "ps_train.errors",
    "fit": "ps_train.fitting.fit",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ps_train' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
