"""The displays of the features: the one place that makes them, in the order in which the status page shows them."""

from __future__ import annotations

from ps_train.observe.status.display import Displays
from ps_train.observe.status.stream_lag import StreamLag
from ps_train.training.duties.event_cuts import CutDisplay
from ps_train.training.duties.rack_display import RackDisplay
from ps_train.training.duties.step_duties import AdaptedDisplay
from ps_train.training.tasks.hosted_ps import HostedPsDisplay


def displays() -> Displays:
    """Returns what the features show of a job; `StreamLag` before `CutDisplay`, which adds to its section."""
    return Displays([RackDisplay(), AdaptedDisplay(), HostedPsDisplay(), StreamLag(), CutDisplay()])
