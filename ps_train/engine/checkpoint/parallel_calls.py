"""Calls of a session that several threads make side by side.

run_beside(session, [write_ps_0, write_ps_1])
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import abandonable


def run_beside(session: v1.Session, actions: Sequence[Callable[[], None]]) -> None:
    """Runs actions side by side, each in its thread, and waits until all have ended; raises the first error.

    Args:
      session: the session of their calls; the wait is abandoned with it.
      actions: the actions; one alone runs in the calling thread.
    """
    if len(actions) == 1:
        actions[0]()
        return
    errors: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[one], daemon=True, name="save or restore") for one in actions]
    for thread in threads:
        thread.start()
    with abandonable(session):
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
