"""Names of TensorFlow 1 that programs use, each with a small program of `tests/support/tf1_programs` that uses it.

The table in docs/MIGRATING.md is made from this list: `python -m tests.support.tf1_names` prints it.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import runpy
import sys
import traceback

PROGRAMS = pathlib.Path(__file__).parent / "tf1_programs"
SAME = "the same"


@dataclasses.dataclass(frozen=True)
class Row:
    """Names of one kind.

    Attributes:
      names: the names, as the table shows them.
      here: what they are under `--compat`.
      program: a file of `tests/support/tf1_programs`, without its ending, that uses them.
    """

    names: str
    here: str
    program: str


ROWS = [
    Row(
        "`nn.rnn_cell.*`, `contrib.rnn.{BasicRNNCell, BasicLSTMCell, LSTMCell, GRUCell, MultiRNNCell, DropoutWrapper, "
        "ResidualWrapper, DeviceWrapper}`",
        "the same, with tf-keras",
        "recurrent_cells",
    ),
    Row(
        "`nn.dynamic_rnn`, `nn.bidirectional_dynamic_rnn`, `contrib.rnn.{static_rnn, static_bidirectional_rnn, "
        "stack_bidirectional_rnn, stack_bidirectional_dynamic_rnn}`",
        SAME,
        "recurrent_networks",
    ),
    Row(
        "`keras`",
        "that of TensorFlow 1, with tf-keras; `import keras` is Keras 3 beside it. `TF_USE_LEGACY_KERAS=0` makes "
        "`tf.keras` Keras 3 too",
        "keras_beside",
    ),
]


def table() -> str:
    """Returns the table of docs/MIGRATING.md."""
    lines = ["| `tf.` | with `--compat` |", "|---|---|", *(f"| {row.names} | {row.here} |" for row in ROWS)]
    return "\n".join(lines) + "\n"


def run(programs: list[str]) -> dict[str, str]:
    """Runs programs under the facade, each in a graph of its own; returns their tracebacks, "" for none."""
    import tensorflow as tf

    from ps_train.compat.tf1 import facade

    facade.install()
    found = {}
    for program in programs:
        with tf.Graph().as_default():
            try:
                runpy.run_path(str(PROGRAMS / f"{program}.py"), run_name="__main__")
                found[program] = ""
            except BaseException:
                found[program] = traceback.format_exc()
    return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1:])) if sys.argv[1:] else table())
