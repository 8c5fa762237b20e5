"""Epochs: what the chief does for a model between some steps and the next ones, while all workers are at rest.

An epoch ends at each multiple of --save_steps, before the checkpoint there.  The work is done in the main thread, which
has the program's own state, such as eager execution.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership import records
from ps_train.engine.step.parts.local_steps import LocalSteps
from ps_train.engine.step.parts.summed import Sums
from ps_train.engine.variables.variables import CheckpointEntry
from ps_train.saved.warm_start.writing import Target, reader_of
from ps_train.training.duties.duty import Bursts, Duty, Setting, Start
from ps_train.training.duties.user_hooks import UserHooks

_SETTLE_SECS = 2.0
"""Most seconds for the last updates of an epoch to arrive on all ps."""


class Values(Protocol):
    """The values on the ps, and the slots of a worker that has its own, while all workers are at rest."""

    def keys(self) -> Sequence[str]:
        """Returns the keys that a checkpoint has, and those of the worker's own slots."""

    def read(self, keys: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the values of some keys."""

    def write(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Writes the values of some keys, but for the worker's own slots."""

    def sums(self) -> np.ndarray[Any, Any]:
        """Returns the model's sums so far, float64; may be called at any time."""

    def tell(self, text: str) -> None:
        """Leaves a text for the models of the other tasks."""

    def told(self) -> str:
        """Returns the text that the chief's model has left; "" if it has left none."""

    def step(self) -> int:
        """Returns the global step."""


class EpochListener(Protocol):
    """What happens at the ends of epochs; all calls but `take` come from the main thread of the chief."""

    def attach(self, values: Values, step: int) -> None:
        """A session has begun at this global step."""

    def hears_steps(self) -> bool:
        """Returns True if `steps_made` does anything."""

    def steps_made(self, step: int) -> bool:
        """Some steps were made; returns True if the training ends."""

    def end_epoch(self, step: int) -> bool:
        """An epoch has ended, and all workers are at rest; returns True if the training ends."""

    def end(self) -> bool:
        """The training has ended; returns True if the model on the ps was changed."""

    def take(self, values: Values, step: int) -> None:
        """The job is done at this global step; called in a worker that is not the chief."""


class Epochs(Duty):
    """The chief's.

    Args:
      setting: what duties are made of; its graph is open.
      listener: is told.
      user_hooks: can end the training of all tasks.

    Attributes:
      is_over: True if no further step is made.
    """

    def __init__(self, setting: Setting, listener: EpochListener, user_hooks: UserHooks) -> None:
        self._events, self._listener, self._user_hooks = setting.joined.events, listener, user_hooks
        self._every = setting.prepared.job.save_steps
        self._ended, self._has_ended, self._is_within = -1, False, False
        self._lock = threading.Lock()
        self.is_over = False
        self._values = PsValues(setting, writes=True)
        if listener.hears_steps():
            self.hooks = [_StepsMade(setting.step.ops.step_after, self._steps_made)]
            self.bursts = Bursts(often=True)

    def opened(self, session: v1.Session, start: Start) -> None:
        """Knows the session, and the epochs that ended before it."""
        self._values.session = session
        self._ended = max(self._ended, start.step // self._every)
        self._events.run(lambda: self._listener.attach(self._values, start.step))

    def at_rest(self, step: int) -> None:
        """Ends the epochs that end at this step; any thread."""
        with self._lock:
            while not self.is_over and self._ended < step // self._every:
                self._values.settle(step)
                self._ended += 1
                if self._events.run(functools.partial(self._listener.end_epoch, self._ended * self._every)):
                    self.is_over = True
                    self._user_hooks.end_training("stop_training")

    def _steps_made(self, step: int) -> None:
        if not self.is_over and self._events.run(lambda: self._listener.steps_made(step)):
            self.is_over = self._is_within = True
            self._user_hooks.end_training("stop_training")

    def settle(self, session: v1.Session) -> bool:
        """Ends the last epoch, then the training; returns True if that changed the model."""
        if self._has_ended:
            return False
        step = self._values.step()
        self.at_rest(step)
        self._has_ended = True
        if self._is_within:  # the last epoch is not a whole one
            self._values.settle(step)
            self._events.run(lambda: self._listener.end_epoch(step))
        return self._events.run(self._listener.end)


class LastValues(Duty):
    """Another worker's: gives its model the values at the end of the job."""

    def __init__(self, setting: Setting, listener: EpochListener) -> None:
        self._values, self._listener = PsValues(setting, writes=False), listener

    def done(self, session: v1.Session | None) -> None:
        """Gives the values to the model; every ps serves until this task has left."""
        if session is not None:
            self._values.session = session
            self._listener.take(self._values, self._values.step())


class _StepsMade(v1.train.SessionRunHook):
    def __init__(self, step: tf.Tensor, made: Callable[[int], None]) -> None:
        self._step, self._made = step, made

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._made(int(run_values.results))


class PsValues:
    """The values on the ps, by the keys of a checkpoint, and the slots of a worker that has its own.

    Args:
      setting: what duties are made of; its graph is open.
      writes: True if `write` is called.

    Attributes:
      session: the present session.
    """

    def __init__(self, setting: Setting, writes: bool) -> None:
        self.session: v1.Session
        ps = setting.step.ps
        self._entries: dict[str, list[CheckpointEntry]] = {}
        for entry in ps.entries:
            self._entries.setdefault(entry.key, []).append(entry)
        device = setting.prepared.device
        self._targets = {key: Target(entries, device) for key, entries in self._entries.items()} if writes else {}
        self._reads = {
            key: [entry.variable.read_value() for entry in entries if not entry.follower]
            for key, entries in self._entries.items()
        }
        for part in setting.step.parts.of(LocalSteps):
            self._reads |= {key: [slot.read_value()] for key, slot in part.own_slots.items() if key not in self._reads}
        self._step = ps.global_step
        self._counts = list(ps.update_counts)
        self._sums = [part.present for part in setting.step.parts.of(Sums)]
        self._store = setting.joined.stores[0]

    def keys(self) -> Sequence[str]:
        """Returns the keys that a checkpoint has, and those of the worker's own slots."""
        return list(self._reads)

    def read(self, keys: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the values of some keys; the slices of a variable are put together."""
        found = self.session.run({key: self._reads[key] for key in keys})
        return {key: self._joined(key, parts) for key, parts in found.items()}

    def _joined(self, key: str, parts: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        if len(parts) == 1:
            return parts[0]
        entries = [entry for entry in self._entries[key] if not entry.follower]
        whole = np.empty(entries[0].full_shape, parts[0].dtype)
        for entry, part in zip(entries, parts, strict=True):
            whole[entry.begin : entry.begin + len(part)] = part
        return whole

    def write(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Writes the values of some keys, but for the worker's own slots."""
        for key, value in values.items():
            if key in self._entries:
                self._targets[key].write_all(self.session, reader_of(value))

    def sums(self) -> np.ndarray[Any, Any]:
        """Returns the model's sums so far."""
        return np.asarray(self.session.run(self._sums[0])) if self._sums else np.zeros(0)

    def tell(self, text: str) -> None:
        """Leaves a text for the models of the other tasks."""
        self._store.set(records.TOLD, text)

    def told(self) -> str:
        """Returns the text that the chief's model has left."""
        return self._store.get(records.TOLD)

    def step(self) -> int:
        """Returns the global step."""
        return int(self.session.run(self._step))

    def settle(self, step: int) -> None:
        """Waits until all ps have made their updates up to a global step, as far as they will be made."""
        deadline = time.monotonic() + _SETTLE_SECS
        while min(self.session.run(self._counts)) < step and time.monotonic() < deadline:
            time.sleep(0.002)
