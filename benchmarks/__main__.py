"""`python -m benchmarks [what] [options]`; `--help` tells them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from benchmarks import (
    accumulators,
    accuracy,
    adaptive,
    alternate,
    batch_size,
    big_table,
    breakdown,
    checkpoint,
    codec_cpu,
    compare,
    delta,
    graph_size,
    growth,
    input_speed,
    keras_fits,
    local_scores,
    modes,
    on_workers,
    options,
    racks,
    slow,
    startup,
    status_page,
    tune,
    wire,
)
from benchmarks.errors import ContenderError, SkippedError, UsageError

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    commands = {
        "compare": compare.run,
        "alternate": alternate.run,
        "accuracy": accuracy.run,
        "local_scores": local_scores.run,
        "accumulators": accumulators.run,
        "wire": wire.run,
        "startup": startup.run,
        "graph_size": graph_size.run,
        "growth": growth.run,
        "input": input_speed.run,
        "modes": modes.run,
        "keras": keras_fits.run,
        "on_workers": on_workers.run,
        "slow": slow.run,
        "status": status_page.run,
        "breakdown": breakdown.run,
        "codec_cpu": codec_cpu.run,
        "checkpoint": checkpoint.run,
        "delta": delta.run,
        "big_table": big_table.run,
        "batch_size": batch_size.run,
        "adaptive": adaptive.run,
        "racks": racks.run,
        "tune": tune.run,
    }
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda got, frame: sys.exit(128 + got))  # on the way out all processes are ended
    try:
        chosen = options.parse(arguments)
        return commands[chosen.what](chosen)
    except UsageError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ContenderError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except SkippedError as reason:
        print(f"skipped: {reason}")
        return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
