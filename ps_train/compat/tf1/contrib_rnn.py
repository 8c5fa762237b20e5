"""The names of `tf.contrib.rnn` that `tf.nn` has not: layers of recurrent networks in both directions, and two cells.

outputs, _, _ = stack_bidirectional_dynamic_rnn([GRUCell(8)], [GRUCell(8)], inputs, dtype=tf.float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import legacy

_SCOPE = "stack_bidirectional_rnn"


def lstm_block_cell(
    num_units: int,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
    dtype: Any = None,
    reuse: Any = None,
    name: str = "lstm_cell",
) -> Any:
    """Returns the cell LSTMCell, which has the variables and the equations of contrib's LSTMBlockCell.

    Args:
      num_units: size of the state.
      forget_bias: added to the forget gate.
      cell_clip: the largest magnitude in a state; None or a negative number: no limit.
      use_peephole: whether the gates see the state.
      dtype: of the variables.
      reuse: whether they are there already.
      name: of the cell.
    """
    clip = cell_clip if cell_clip is not None and cell_clip > 0 else None
    make = legacy.name("rnn_cell", "LSTMCell")
    return make(num_units, use_peephole, clip, forget_bias=forget_bias, dtype=dtype, reuse=reuse, name=name)


def gru_block_cell(num_units: int, reuse: Any = None, name: str = "gru_cell") -> Any:
    """Returns the cell GRUCell, which has the variables and the equations of contrib's GRUBlockCellV2.

    Args:
      num_units: size of the state.
      reuse: whether the variables are there already.
      name: of the cell.
    """
    return legacy.name("rnn_cell", "GRUCell")(num_units, reuse=reuse, name=name)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Returns the outputs of layers in both directions, each of which reads both outputs of the one before.

    Args:
      cells_fw: a cell for each layer, forwards.
      cells_bw: as many cells, backwards.
      inputs: [batch, positions, values], or [positions, batch, values] with `time_major`.
      initial_states_fw: a state for each layer, forwards; None for zeros.
      initial_states_bw: the same, backwards.
      dtype: of the states of zeros.
      sequence_length: int32 [batch], the number of positions of each sequence; None: all.
      parallel_iterations: positions whose operations may run at once.
      time_major: whether positions come before the batch.
      scope: the variable scope; None for `stack_bidirectional_rnn`.
      swap_memory: whether tensors for gradients may leave the GPU.

    Returns:
      The outputs of the last layer, forwards and backwards joined on the last dimension; the last state of each layer,
      forwards; and the same, backwards.

    Raises:
      ValueError: the lists are empty or of different lengths.
    """

    def run(forward: Any, backward: Any, values: Any, states: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        outputs, (last_forward, last_backward) = v1.nn.bidirectional_dynamic_rnn(
            forward,
            backward,
            values,
            sequence_length,
            *states,
            dtype=dtype,
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            time_major=time_major,
        )
        return tf.concat(outputs, 2), last_forward, last_backward

    return _stacked(run, cells_fw, cells_bw, inputs, (initial_states_fw, initial_states_bw), scope)


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Sequence[Any],
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    """Returns the same as `stack_bidirectional_dynamic_rnn` for a list of positions, each [batch, values].

    The outputs are a list too.  The other arguments are those of `stack_bidirectional_dynamic_rnn`.
    """

    def run(forward: Any, backward: Any, values: Any, states: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        return v1.nn.static_bidirectional_rnn(forward, backward, values, *states, dtype, sequence_length)

    return _stacked(run, cells_fw, cells_bw, inputs, (initial_states_fw, initial_states_bw), scope)


def _stacked(
    run: Callable[[Any, Any, Any, tuple[Any, Any]], tuple[Any, Any, Any]],
    forward: Sequence[Any],
    backward: Sequence[Any],
    values: Any,
    states: tuple[Sequence[Any] | None, Sequence[Any] | None],
    scope: Any,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Returns the outputs and the states of layers that `run` makes, each in a variable scope of its own."""
    for what, each in (("cells_bw", backward), ("initial_states_fw", states[0]), ("initial_states_bw", states[1])):
        if each is not None and len(each) != len(forward):
            raise ValueError(
                f"{what} has {len(each)} entries, and cells_fw has {len(forward)}: give one for each layer"
            )
    if not forward:
        raise ValueError("cells_fw=[] has no cells: give one for each layer")
    of_forward, of_backward = ([None] * len(forward) if each is None else each for each in states)
    made = []
    with v1.variable_scope(scope or _SCOPE):
        for number, pair in enumerate(zip(forward, backward, strict=True)):
            with v1.variable_scope(f"cell_{number}"):
                values, *last = run(*pair, values, (of_forward[number], of_backward[number]))
                made.append(last)
    last_forward, last_backward = zip(*made, strict=True)
    return values, last_forward, last_backward
