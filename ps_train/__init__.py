"""ps_train: parameter-server training for TensorFlow graphs.

    import ps_train
    class MyModel(ps_train.Model): ...

`__all__` lists the names for users: classes, and modules with lists of their own.  Each is imported when it is first
asked for (PEP 562), so that `import ps_train` does not import TensorFlow.
"""

from __future__ import annotations

from ps_train.base import hidden_modules

hidden_modules.watch()  # before the first import that a user's file could answer

import importlib  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if TYPE_CHECKING:
    from ps_train import (
        data,
        embeddings,
        estimator,
        features,
        keras,
        losses,
        metrics,
        negatives,
        optimizers,
        serving,
        train,
    )
    from ps_train.base.errors import ConfigError, DataError, ModelError, PsTrainError, RefusedError, TrainingError
    from ps_train.commands.launch.fit import FitResult, fit
    from ps_train.commands.tuning.call import TuneResult, tune
    from ps_train.commands.tuning.study import TunedTrial
    from ps_train.config.job import Job, Task
    from ps_train.data.arrays import Arrays
    from ps_train.data.parquet.parquet_files import Parquet
    from ps_train.data.record_files import TextLines, TFRecords
    from ps_train.data.unbounded.growing_text_lines import GrowingTextLines
    from ps_train.data.unbounded.kafka import Kafka
    from ps_train.modeling.model import Model
    from ps_train.saved.serving.exported import predict

__version__ = "0.1.0"

__all__ = [
    "Arrays",
    "ConfigError",
    "DataError",
    "FitResult",
    "GrowingTextLines",
    "Job",
    "Kafka",
    "Model",
    "ModelError",
    "Parquet",
    "PsTrainError",
    "RefusedError",
    "TFRecords",
    "Task",
    "TextLines",
    "TrainingError",
    "TuneResult",
    "TunedTrial",
    "__version__",
    "data",
    "embeddings",
    "estimator",
    "features",
    "fit",
    "keras",
    "losses",
    "metrics",
    "models",
    "negatives",
    "optimizers",
    "predict",
    "serving",
    "train",
    "tune",
]

_HOMES = {
    "Arrays": "ps_train.data.arrays",
    "ConfigError": "ps_train.base.errors",
    "DataError": "ps_train.base.errors",
    "FitResult": "ps_train.commands.launch.fit",
    "GrowingTextLines": "ps_train.data.unbounded.growing_text_lines",
    "Job": "ps_train.config.job",
    "Kafka": "ps_train.data.unbounded.kafka",
    "Model": "ps_train.modeling.model",
    "ModelError": "ps_train.base.errors",
    "Parquet": "ps_train.data.parquet.parquet_files",
    "PsTrainError": "ps_train.base.errors",
    "RefusedError": "ps_train.base.errors",
    "TFRecords": "ps_train.data.record_files",
    "Task": "ps_train.config.job",
    "TextLines": "ps_train.data.record_files",
    "TrainingError": "ps_train.base.errors",
    "TuneResult": "ps_train.commands.tuning.call",
    "TunedTrial": "ps_train.commands.tuning.study",
    "fit": "ps_train.commands.launch.fit",
    "predict": "ps_train.saved.serving.exported",
    "tune": "ps_train.commands.tuning.call",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'ps_train' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
