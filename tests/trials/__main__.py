"""Runs a trial: a program that tries ps_train for minutes or hours, with other seeds than the tests of the suite.

    python -m tests.trials storms --seed=100 --runs=30
    python -m tests.trials storms --help

docs/dev/testing.md says when to run which.  The exit code is 1 if something was wrong.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

TRIALS = {
    "storms": ("storms.trial", "jobs whose processes are killed, frozen, moved and stopped at random moments"),
    "kills": ("kills.trial", "the kill tests of the data (Kafka, event times, Parquet) with many seeds"),
    "pairwise": ("pairwise.trial", "jobs with all pairs of flags, compared with a program of numpy"),
    "short_runs": ("short_runs", "short synchronous runs in one process, with workers that stop and die"),
    "soak": ("soak.trial", "one long job; memory, files and threads of its processes must stay flat"),
    "fuzz": ("fuzz.trial", "wrong inputs for each parser of foreign input, and damaged checkpoints"),
    "mutation": ("mutation.trial", "one-line errors in the package that the tests must notice"),
    "peers": ("peers.trial", "the tests of TensorFlow's own Estimators and training, from checkouts"),
    "programs": ("programs.trial", "public programs of TensorFlow 1, from checkouts"),
    "faults": ("faults", "measures the pauses and losses that single faults cost"),
    "kept_rendezvous": ("soak.kept_rendezvous", "measures what TensorFlow keeps of calls with large ids"),
}
"""Name to the module with `main(arguments)`, and a line of help."""


def main(arguments: list[str]) -> int:
    """Runs the named trial; returns its exit code."""
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(__doc__)
        print("\n".join(f"  {name:<16} {line}" for name, (_, line) in TRIALS.items()))
        return 0
    if name not in TRIALS:
        print(f"there is no trial {name!r}: use one of {', '.join(TRIALS)}", file=sys.stderr)
        return 2
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # ends the processes of the trial, too
    return int(importlib.import_module(f"tests.trials.{TRIALS[name][0]}").main(rest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
