"""A model_fn as a model of the engine.

    model = CapturedModel(program, survey_program(program), is_chief=True)
    model.forward(batch, training=True)         # runs the model_fn; its optimizers are recorded, and not carried out

The features of this model are whole batches, because a model_fn needs the labels too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import checkpoint_values_taken, saver_hook_settings
from ps_train.compat.capture.batches import batched_input
from ps_train.compat.capture.counted_step import counted_step, operations_of
from ps_train.compat.capture.estimator_program import (
    ENGINE_ENDS_JOB,
    TRAIN,
    CaptureError,
    Program,
    hooks_of,
    saver_hooks_of,
)
from ps_train.compat.capture.hyperparameters import on_this_ps
from ps_train.compat.capture.recorded_optimizers import OptimizerRecorder
from ps_train.compat.capture.row_variable import RowVariable
from ps_train.compat.capture.savers import replaced_savers
from ps_train.compat.capture.survey import Survey
from ps_train.data.arrays import Batch
from ps_train.engine.updates.gradients.apply_gradients import OptimizerGroups
from ps_train.engine.variables.model_variable import ModelVariable
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.user_variables import current_build
from ps_train.modeling.model import Model

_KEYS = v1.GraphKeys


class CapturedModel(Model):
    """The model of an Estimator program.

    Args:
      survey: what it does.
      is_chief: True in the process of the chief.
    """

    hooks_every_step = True
    gives_advice = False  # its flags are not those of the program

    def __init__(self, program: Program, survey: Survey, is_chief: bool) -> None:
        self._program, self._survey, self._is_chief = program, survey, is_chief
        self._recorder: OptimizerRecorder | None = None
        self._step: Any = None
        self._spec: Any = None
        self._names: list[str] = []

    @property
    def captured(self) -> Any:
        """The user's own function, whose file is that of the model."""
        return self._program.model_fn

    def data(self, split: str, data_dir: str) -> Any:
        """Returns the batches of the input_fn; there is no test split."""
        return batched_input(self._program.input_fn) if split == "train" else None

    def forward(self, features: Batch, training: bool) -> Any:
        """Returns the specification that the model_fn makes for a batch."""
        recorder = OptimizerRecorder(_name_of, _source_of)
        step = v1.train.get_global_step()
        # The first checkpoint has the values of other checkpoints; see initial_checkpoint.py.
        savers = replaced_savers(self._survey.saving.definitions)
        with self._giving_rows(), counted_step(), recorder.recording(), savers, checkpoint_values_taken(None, dict):
            spec = self._program.model_fn(features.features, features.labels, TRAIN)
        self._check_same(recorder)
        self._recorder, self._step, self._spec, self._names = recorder, step, spec, current_build().names()
        # TensorFlow runs exactly what the train_op depends on.
        v1.get_default_graph().get_collection_ref(_KEYS.UPDATE_OPS)[:] = operations_of(spec.train_op)
        return spec

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss of the specification as a scalar."""
        return tf.reshape(outputs.loss, [])

    def compute_gradients(self, loss: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradients that the model_fn applied in its last call."""
        assert self._recorder is not None, "forward() is called first"
        return {name: found for call in self._recorder.applied for name, found in call.gradients.items()}

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """Returns the optimizers of the model_fn for the current ps."""
        assert self._recorder is not None, "forward() is called first"
        step = self._step if isinstance(self._step, tf.Tensor) else None
        groups = {str(number): on_this_ps(call.optimizer, step) for number, call in enumerate(self._recorder.applied)}
        return OptimizerGroups(groups, self._group_of, self._key_of, self._slot_key_of)

    def hooks(self) -> list[v1.train.SessionRunHook]:
        """Returns the training hooks of this task, and tells them that their graph is run by the engine."""
        v1.add_to_collection(ENGINE_ENDS_JOB, True)
        return hooks_of(self._program, self._spec, self._is_chief)

    def saving_listeners(self) -> list[v1.train.CheckpointSaverListener]:
        """Returns the listeners that the program was given, and those of its own CheckpointSaverHook."""
        hooks = saver_hooks_of(self._program, self._spec, self._is_chief)
        of_hooks = [listener for hook in hooks for listener in saver_hook_settings(hook).listeners]
        return [*of_hooks, *self._program.saving_listeners]

    def _group_of(self, name: str) -> str:
        """Returns the number of the call that updates a variable or a slice of it."""
        whole = name.rpartition("/part_")[0]
        for number, group in enumerate(self._survey.groups):
            if name in group.variables or whole in group.variables:
                return str(number)
        raise ModelError(f"the model_fn applies no gradient to variable {name}.")

    def _slot_key_of(self, group: str, variable: str, kind: str) -> str:
        """Returns the key that TensorFlow's saver has for a slot.

        An optimizer that is used in a variable scope makes slots in it.  For a variable with a partitioner, the saver
        takes a slot's name behind as many characters as the name of the variable's first part has.
        """
        scope = self._survey.groups[int(group)].scope
        if variable in self._survey.partitioned:
            part = f"{variable}/part_0/"
            return f"{variable}/{(scope + part)[len(part) :]}{kind}"
        return f"{scope}{variable}/{kind}"

    def _key_of(self, group: str, kind: str, number: int) -> str:
        """Returns TensorFlow's name of a variable that belongs to an optimizer as a whole."""
        same = [name for own, name in self._survey.groups[int(group)].shared if own == kind]
        return same[number - 1] if number <= len(same) else f"{group}/{kind}_{number}"

    @contextlib.contextmanager
    def _giving_rows(self) -> Iterator[None]:
        """Gives the model an object that fetches rows for each variable that it only looks up."""
        root, tables = v1.get_variable_scope(), self._survey.looked_up
        rows: dict[str, RowVariable] = {}

        def get(getter: Any, name: str, *args: Any, **options: Any) -> Any:
            if name not in tables:
                return getter(name, *args, **options)
            if name not in rows:
                shape = tf.TensorShape([tables[name].total, *tables[name].row_shape])
                rows[name] = RowVariable(tables[name], shape, root)
                current_build().show(name, rows[name])
            return rows[name]

        with v1.variable_scope(root, custom_getter=get, auxiliary_name_scope=False):
            yield

    def check_made(self, variables: ModelVariables) -> None:
        """Checks that the last call of the model_fn has made these variables, with gradients of these kinds.

        Raises:
          CaptureError: it has made others.
        """
        tables, found = variables.tables(), self.compute_gradients(None, {})
        sparse = [name for name in variables.with_gradient() if isinstance(found.get(name), tf.IndexedSlices)]
        names = [name for name in self._names if name not in tables]
        if names != [name for name in variables.variables if name not in tables] or sparse != variables.sparse():
            raise CaptureError("the model_fn makes other variables, or other gradients, at another call")

    def _check_same(self, recorder: OptimizerRecorder) -> None:
        found = [frozenset(call.gradients) for call in recorder.applied]
        if found != [group.variables for group in self._survey.groups]:
            raise CaptureError("the model_fn applies gradients to other variables at another call")


def _name_of(variable: Any) -> str:
    return str(variable.name).partition(":")[0]


def _source_of(variable: Any) -> Any:
    if isinstance(variable, RowVariable):
        return variable.gradient_source()
    return variable.value() if isinstance(variable, ModelVariable) else variable
