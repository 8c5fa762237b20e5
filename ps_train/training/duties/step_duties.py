"""Duties that serve one part of the step each, and have little to do: what it keeps, shows, or hands over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.label_values import LabelValuesHook
from ps_train.engine.step.parts.following import FollowingPart
from ps_train.engine.step.parts.local_steps import ROUNDS
from ps_train.engine.updates.following.adaptation import ADAPTED, AdaptationHook
from ps_train.engine.updates.gradients.residuals import Residuals
from ps_train.observe.profile.profile import Profile
from ps_train.observe.progress.early_stop import early_stop_hooks
from ps_train.observe.status.display import Display
from ps_train.training.duties.duty import Duty, End, Rounds, Setting, Start
from ps_train.training.duties.user_hooks import UserHooks
from ps_train.training.joining.agreement import confirm
from ps_train.training.loop.call_wrappers import call_wrappers


class Confirming(Duty):
    """What was agreed on still holds in each session."""

    def __init__(self, setting: Setting) -> None:
        self._prepared, self._agreed, self._store = setting.prepared, setting.agreed, setting.joined.stores[0]

    def connected(self, session: v1.Session) -> None:
        """The chief writes it again, since a restart empties ps 0, or finds that other tasks know something else."""
        if self._prepared.is_chief:
            confirm(self._prepared, self._agreed, self._store)

    def opened(self, session: v1.Session, start: Start) -> None:
        """Another worker compares it when the chief has prepared the model.

        Not before: the rounds of the chief may still wait for a server of this very worker.
        """
        if not self._prepared.is_chief:
            confirm(self._prepared, self._agreed, self._store)


class HeldResiduals(Duty):
    """What a push codec has left out of gradients, and holds on this task."""

    def __init__(self, residuals: Residuals) -> None:
        self._residuals = residuals

    def paused(self, session: v1.Session) -> None:
        """Hands it over to the ps, since this task may make no further step."""
        self._residuals.send(session)

    def settle(self, session: v1.Session) -> bool:
        """Applies what all tasks have handed over."""
        return self._residuals.apply(session)


class Labels(Duty):
    """A look at the first labels."""

    def __init__(self) -> None:
        self.hooks = [LabelValuesHook()]


class EarlyStop(Duty):
    """The end of a training that no longer improves (`--early_stop`)."""

    def __init__(self, setting: Setting, step: tf.Tensor, user_hooks: UserHooks) -> None:
        text, directory = setting.prepared.job.early_stop, setting.joined.directory
        self.hooks = early_stop_hooks(text, directory, step, user_hooks.end_training)


class Adapting(Duty):
    """Values that follow measurements, which the chief changes."""

    def __init__(self, setting: Setting, fetches: Mapping[str, Any], profile: Profile) -> None:
        values, step = [part.adapted for part in setting.step.parts.of(FollowingPart)], setting.step.ps.global_step
        self.hooks = [AdaptationHook(values, step, fetches, profile.tracer)] if values else []


class AdaptedDisplay(Display):
    """What the status page shows of such values."""

    gauges = (*ADAPTED.values(), ROUNDS)


class Profiling(Duty):
    """The times of this task's steps: samples for the status page, and a trace with `--profile`.

    Attributes:
      profile: has the tracer of the calls.
    """

    def __init__(self, setting: Setting, rounds: Rounds) -> None:
        prepared, joined = setting.prepared, setting.joined
        self._job, self._task = prepared.job, str(prepared.task)
        self.profile = Profile(
            prepared.job.profile,
            self._task,
            [str(task) for task in prepared.cluster.replicas() if task != prepared.task],
            joined.directory,
            lambda: [address.target for address in joined.resolver.current().ps],
            setting.console.line,
            rounds.targets,
        )
        joined.telemetry.include(self._sample)
        self._step = 0

    def _sample(self) -> Mapping[str, Any]:
        latest = self.profile.tracer.latest
        return {} if latest is None else {"step_time": dict(latest)}

    def opened(self, session: v1.Session, start: Start) -> None:
        """Begins to time the calls of the session."""
        self._step = start.step

    def wrappers(self) -> Sequence[Callable[[Any], Any]]:
        """Returns those that time calls, and slow them where a fault is wanted."""
        return call_wrappers(self._job, self._task, self.profile.tracer.begin(self._step))

    def paused(self, session: v1.Session) -> None:
        """Hands over what is recorded, which may take a minute."""
        self.profile.finish()

    def parked(self) -> None:
        """Hands over what is recorded."""
        self.profile.finish()

    def ended(self, end: End) -> None:
        """Ends the profile."""
        self.profile.close()
