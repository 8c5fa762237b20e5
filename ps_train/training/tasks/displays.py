"""The displays of the features: the one place that makes them, in the order in which the status page shows them."""

from __future__ import annotations

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.engine.updates.following.adaptation import ADAPTED
from ps_train.observe.status.display import Display, Displays
from ps_train.observe.status.stream_lag import StreamLag
from ps_train.training.duties.event_cuts import CutDisplay
from ps_train.training.duties.rack_display import RackDisplay
from ps_train.training.tasks.hosted_ps import HostedPsDisplay


def displays_of(cluster: Cluster) -> Displays:
    """Returns what the features show of a job; `StreamLag` before `CutDisplay`, which adds to its section."""
    following = Display()
    following.gauges = tuple(ADAPTED.values())
    return Displays([RackDisplay(), following, HostedPsDisplay(cluster), StreamLag(), CutDisplay()])
