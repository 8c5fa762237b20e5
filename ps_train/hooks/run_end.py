"""The end of a run: its metrics, result.json, and the lines that say how to go on with its checkpoint."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from typing import Any


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Formats metrics for the console: `accuracy 0.9417  loss 0.1873`."""
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def write_result(directory: str, result: dict[str, Any]) -> str:
    """Writes result.json atomically; returns its path."""
    path = os.path.join(directory, "result.json")
    with open(path + ".new", "w") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    os.replace(path + ".new", path)
    return path


def read_result_step(directory: str) -> int | None:
    """Returns the global step in result.json; None if the file is missing or unreadable."""
    try:
        with open(os.path.join(directory, "result.json")) as file:
            return int(json.load(file)["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def advice(directory: str, export_dir: str, step: int) -> list[str]:
    """Returns the last lines of a run for the console: how to go on, how to look at it, and what to serve.

    Args:
      directory: the model directory.
      export_dir: directory of the exported model, "" if it was not exported.
      step: the last global step.
    """
    same = f"the same command with --model_dir={shlex.quote(directory)}"
    serve = f"tensorflow_model_server --model_base_path={shlex.quote(os.path.abspath(export_dir))}"
    return [
        f"to go on:  {same} and --max_steps above {step}",
        f"to look:   tensorboard --logdir={shlex.quote(directory)}",
        f"to serve:  {serve if export_dir else f'{same} and --export_dir=DIR writes a SavedModel'}",
    ]
