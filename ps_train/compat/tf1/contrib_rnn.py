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


class LSTMBlockFusedCell:
    """An LSTM over all positions in one operation.

    Args:
      num_units: size of the state.
      forget_bias: added to the forget gate.
      cell_clip: the largest magnitude in a state; None or a negative number: no limit.
      use_peephole: whether the gates see the state.
      reuse: whether the variables are there already.
      dtype: of the variables; None: of the inputs.
      name: of the variables' scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = -1.0 if cell_clip is None else cell_clip
        self._reuse, self._dtype, self._name = reuse, dtype, name
        self._variables: tuple[Any, ...] | None = None

    @property
    def num_units(self) -> int:
        """The size of the state."""
        return self._num_units

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, tuple[Any, Any]]:
        """Returns the outputs of all positions, and the last state (c, h), which is an LSTMStateTuple with tf-keras.

        Args:
          inputs: [positions, batch, values], or a list of [batch, values].
          initial_state: c and h, each [batch, num_units]; None for zeros.
          dtype: of the variables; None: of the inputs.
          sequence_length: int [batch], the number of positions of each sequence; None: all.
          scope: the variable scope; None: the name of the cell.
        """
        is_list = isinstance(inputs, list | tuple)
        values = tf.stack(inputs) if is_list else tf.convert_to_tensor(inputs)
        dtype = dtype or self._dtype or values.dtype
        with v1.variable_scope(scope or self._name, reuse=self._reuse):
            kernel, bias, *peepholes = self._made(int(values.shape[2]), dtype)
        length, batch = tf.shape(values)[0], tf.shape(values)[1]
        zeros = tf.zeros([batch, self._num_units], dtype)
        cell, hidden = (zeros, zeros) if initial_state is None else initial_state
        longest = length if sequence_length is None else tf.reduce_max(sequence_length)
        block = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(longest, tf.int64),
            x=values,
            cs_prev=cell,
            h_prev=hidden,
            w=kernel,
            wci=peepholes[0],
            wcf=peepholes[1],
            wco=peepholes[2],
            b=bias,
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
        )
        outputs, cells = block.h, block.cs
        if sequence_length is None:
            last = cells[-1], outputs[-1]
        else:
            outputs *= tf.transpose(tf.sequence_mask(sequence_length, length, dtype))[:, :, None]
            at = tf.stack([tf.cast(sequence_length, tf.int32), tf.range(batch)], axis=1)  # 0 is the first state
            last = tuple(
                tf.gather_nd(tf.concat([first[None], each], 0), at)
                for first, each in ((cell, cells), (hidden, outputs))
            )
        if legacy.is_installed():
            last = legacy.name("rnn_cell", "LSTMStateTuple")(*last)
        return (tf.unstack(outputs) if is_list else outputs), last

    def _made(self, size: int, dtype: Any) -> tuple[Any, ...]:
        """Returns the kernel, the bias and the three peepholes."""
        if self._variables is None:
            units = self._num_units
            kernel = v1.get_variable("kernel", [size + units, 4 * units], dtype)
            bias = v1.get_variable("bias", [4 * units], dtype, v1.zeros_initializer())
            names = ["w_i_diag", "w_f_diag", "w_o_diag"]
            peepholes = (
                [v1.get_variable(name, [units], dtype) for name in names]
                if self._use_peephole
                else [tf.zeros([units], dtype)] * 3
            )
            self._variables = kernel, bias, *peepholes
        return self._variables


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
