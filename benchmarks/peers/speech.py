"""How every program of the benchmark is called, and what it says, so that one reader understands all contenders.

    arguments = parse()                          # --workload, --job_name, --task_index, --ps_hosts, ...
    marks = Marks()
    marks.at(global_step)                        # prints `step N` a few times a second
    say_test_loss(0.61)                          # prints `test loss 0.61`

`step N` and `test … loss X` are what `python -m ps_train` prints, too.
"""

from __future__ import annotations

import argparse
import time

MARK_SECS = 0.25


def parse(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--job_name", default="worker", choices=("ps", "worker", "chief"))
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--ps_hosts", default="", help="comma-separated host:port list")
    parser.add_argument("--worker_hosts", default="", help="comma-separated host:port list")
    parser.add_argument("--max_steps", type=int, default=1 << 30, help="global steps; then the test loss is printed")
    parser.add_argument("--handover", default="", help="file of the workload, for programs without TensorFlow")
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="of one process; 0 leaves it to the framework")
    parser.add_argument("--steps_per_closure", type=int, default=1, help="ParameterServerStrategy only")
    parser.add_argument("--count_rpcs", action="store_true", help="print what one step sends; classic and bare only")
    return parser.parse_args()


class Marks:
    """Says how far training is, not too often."""

    def __init__(self) -> None:
        self._next = 0.0
        self._first = True

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def at(self, global_step: int) -> None:
        if self._first:
            print("first step", flush=True)
            self._first = False
        if self.due():
            print(f"step {global_step}", flush=True)
            self._next = time.monotonic() + MARK_SECS


def say_test_loss(loss: float) -> None:
    print(f"test loss {loss:.6f}", flush=True)
