"""Installation of optional packages: the extras of setup.py.

    install("parquet")      # "pip install '.[parquet]' in a clone of ps_train"

No package of this name is in a registry, so the command installs the clone itself.
"""

from __future__ import annotations

from typing import Literal

Extra = Literal[
    "compat", "estimator", "gs", "kafka", "mlflow", "notebook", "parquet", "s3", "serving", "tensorboard", "tune",
    "wandb",
]  # fmt: skip
"""The extras of setup.py, without `dev`."""


def install(extra: Extra) -> str:
    """Returns the command that installs an extra, and where to run it."""
    return f"pip install '.[{extra}]' in a clone of ps_train"
