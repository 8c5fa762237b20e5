"""Trains under refusals, alone in its process: `python -m tests.support.clusters.refused_calls MODE:PS:WORKERS:RUN …`.

Prints one JSON object for each: how many calls were refused, and what became of the training.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np
import tensorflow as tf

from ps_train.base.tcp_connections import shut_down_incoming
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.sessions.abandonable import LATER_SECS, run_within
from ps_train.cluster.sessions.calls import PREPARATION_SECS, UNBOUNDED_CALL
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, in_parallel, train_plainly
from tests.support.clusters.servers import POOL
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear
from tests.support.models.tables import Counted

MODES = {
    "async": {"update": "async"},
    "bounded": {"update": "bounded", "max_steps_ahead": 1},
    "sync": {"update": "sync"},
    "ahead": {"update": "async", "prefetch_pulls": 1},
}
STEPS, RATE, BATCH = 120, 0.05, 4


def trained(mode: str, num_ps: int, workers: int, run: int) -> dict[str, object]:
    """Trains in calls that may be refused at any time."""
    model = Counted() if mode == "ahead" else Linear(count=120, width=5)
    cluster = InProcessCluster(
        model,
        num_ps,
        workers,
        partition_bytes=8,
        batch_size=BATCH,
        steps_per_run=str(run),
        **(
            {"optimizer": "sgd", "learning_rate": 1.0}
            if mode == "ahead"
            else {"optimizer": "adam", "learning_rate": RATE}
        ),
        **MODES[mode],
    )
    cluster.start()
    initial = cluster.values()
    forgotten: list[int] = []
    in_parallel([lambda index=index: forgotten.append(_train(cluster, index, run)) for index in range(workers)])
    values = cluster.values()
    found = {
        "refused": sum(session.refused for session in cluster.sessions),
        "forgotten": sum(forgotten),
        "step": cluster.global_step(),
        "expected": STEPS * (1 if mode == "sync" else workers),
        "examples": float(values["ps_train/examples"]),
    }
    if mode == "ahead":  # each use of an example adds 1 to its row
        found["difference"] = abs(float(values["t"][:, 0].sum()) - found["examples"])
    elif workers == 1 or mode == "sync":
        batches = batches_of(model, BATCH * workers, STEPS)
        plain = train_plainly(model, lambda: make_optimizer("adam", RATE), initial, batches)
        found["difference"] = max(float(np.abs(values[name] - plain[name]).max()) for name in plain)
    return found


def _train(cluster: InProcessCluster, index: int, run: int) -> int:
    """Gives up a call that has not begun in time: its worker has refused it, and TensorFlow forgets its other parts.

    Returns:
      The number of such calls.  Each has ended when its ps lost their connections to the worker.
    """
    forgotten, port = 0, urlsplit(cluster.targets[index]).port or 0
    step, made, within_secs = cluster.steps[index], 0, PREPARATION_SECS
    openings = int(bool(step.steps_per_call(0)["train"]))  # each session's first call
    while made < STEPS // run:
        session = cluster.sessions[index]
        call = functools.partial(session.run, step.steps_per_call(run), options=UNBOUNDED_CALL)
        if _ends(call, within_secs, functools.partial(session.run, step.worker.calls_begun), made + openings, port):
            made, within_secs = made + 1, LATER_SECS
        else:
            forgotten += 1
            cluster.open_again(index)
            within_secs = PREPARATION_SECS
            openings += int(bool(step.steps_per_call(0)["train"]))
            assert cluster.sessions[index].run(step.worker.calls_begun) == made + openings
    return forgotten


def _ends(call: Callable[[], object], within_secs: float, begun: Callable[[], int], made: int, port: int) -> bool:
    since, ended = time.monotonic(), threading.Event()

    def is_stuck() -> bool:
        nonlocal since
        if time.monotonic() - since < within_secs:
            return False
        since = time.monotonic()
        return begun() == made

    def run() -> None:
        try:
            call()
        finally:
            ended.set()

    try:
        run_within(run, 240, is_stuck)
    except TimeoutError:
        assert not ended.wait(0.5)
        assert shut_down_incoming(port) > 0
        eventually(ended.is_set, 10, "the end of a forgotten call")
        return False
    return True


def on_a_board() -> dict[str, object]:
    """Counts by compare-and-set, which a call that is made twice would spoil."""
    board = KeyValueStore(POOL.take(1)[0].target, "ps:0", timeout_secs=20)
    count = 500
    for number in range(count):
        before = "" if number == 0 else str(number)
        assert board.compare_and_set("count", before, str(number + 1)) == before
        assert len(board.items()) == 1
    return {"refused": board._session.refused, "step": int(board.get("count")), "expected": count}


def _undisturbed(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """What `work` returns if a call was refused, and no message between tasks, which ends a session as a lost ps does.

    Both are matters of chance.
    """
    for _ in range(5):
        try:
            found = work()
            if found["refused"] or found["step"] != found["expected"]:
                return found
        except tf.errors.AbortedError as error:
            if "RecvTensor" not in str(error):
                raise
        POOL.give_back()
    return work()


def main(arguments: list[str]) -> None:
    for argument in arguments:
        if argument == "board":
            found = on_a_board()
        else:
            mode, *numbers = argument.split(":")
            found = _undisturbed(functools.partial(trained, mode, *map(int, numbers)))
        POOL.give_back()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
