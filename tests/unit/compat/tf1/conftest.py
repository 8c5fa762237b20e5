"""Every test of this room has a graph of its own, and a session for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1


class Running:
    """A graph, and a session in which its variables are initialized."""

    def __init__(self) -> None:
        self.session: Any = None

    def __call__(self, fetches: Any, feeds: Any = None) -> Any:
        """Runs fetches; the first call initializes all variables and tables."""
        if self.session is None:
            self.session = v1.Session()
            self.session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        return self.session.run(fetches, feeds)

    def values(self) -> dict[str, np.ndarray]:
        """Returns all variables by name."""
        return {variable.op.name: self(variable) for variable in v1.global_variables()}


@pytest.fixture
def run() -> Iterator[Running]:
    with tf.Graph().as_default():
        v1.set_random_seed(7)
        running = Running()
        yield running
        if running.session is not None:
            running.session.close()
