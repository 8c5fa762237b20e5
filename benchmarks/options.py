"""The command line of the benchmarks.

    options = parse(["--workloads=small", "--quick"])

Raises UsageError for what is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from benchmarks import compare, graph_size, results, startup
from benchmarks.contenders import ALIASES, NAMES, contenders_of
from benchmarks.errors import UsageError
from benchmarks.workloads import names, workload_class

WHAT = {
    "compare": "all contenders side by side (the default)",
    "alternate": "contenders that all run at once, all but one frozen, by turns",
    "wire": "bytes and RPCs for one batch",
    "startup": "from launch to the first step of all workers",
    "graph_size": "preparing models of many variables, tables, columns or products",
    "growth": "more and more workers, and a model of them",
    "input": "rows per CPU second of each reader, and of plain tf.data",
    "modes": "the update modes with one slow worker of four",
    "keras": "fits of compiled Keras models, against TensorFlow's and the same networks as models of ps_train",
    "on_workers": "ps on the workers against ps of their own, under sync; bytes against the least",
    "slow": "the same with delay and a rate limit between tasks",
    "status": "what an open status page costs",
    "checkpoint": "what checkpoints of a large table cost, against TensorFlow's Saver",
    "delta": "seconds, memory and bytes of a delta of a large table",
    "big_table": "time and memory of a table of 1.3 GB on 2 ps",
    "accuracy": "test scores of shipped jobs with smaller messages",
    "local_scores": "test scores of jobs with local steps",
    "accumulators": "test scores by the first value of Adagrad's accumulators",
    "codec_cpu": "CPU time of each codec for a value",
    "batch_size": "a batch size that follows the network, over a slow wire",
    "racks": "two racks of three workers under a slow core: the sum of a rack against flat pushes",
    "adaptive": "values that follow measurements against each fixed one, on four profiles",
    "tune": "steps until a study has found a planted optimum, by sampler and pruner; --repeats is the number of seeds",
    "breakdown": "where the CPU time of ps and workers goes, by perf",
}
TORCH_VARIABLE = "BENCHMARK_TORCH_PYTHON"

_EPILOG = f"""\
contenders: {", ".join(NAMES)}
aliases:    {", ".join(ALIASES)}
A contender may be given options: ours-async:accumulate=2 adds a flag, ours-async:NAME=value (upper case) sets an
environment variable.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.quick:
        quick = parser.parse_args([*_QUICK, *arguments])
        quick.check = quick.check and "--check" in arguments
        options = quick
    options.workloads = _list(options.workloads or _DEFAULT_WORKLOADS.get(options.what, compare.DEFAULT_WORKLOADS))
    options.contenders = _list(options.contenders)
    for name in options.workloads:
        workload_class(name)
    contenders_of(options.contenders)
    for name, low in (("repeats", 1), ("num_ps", 1), ("num_workers", 1)):
        if getattr(options, name) < low:
            raise UsageError(f"--{name}={getattr(options, name)} is not valid: use at least {low}.")
    _check_workers(options.workers)
    if os.sep in options.torch_python:  # programs run in directories of their own
        options.torch_python = os.path.abspath(options.torch_python)
    if not options.secs > 0:
        raise UsageError(f"--secs={options.secs:g} is not valid: use a number above 0.")
    return options


_DEFAULT_WORKLOADS = {
    "startup": startup.DEFAULT_WORKLOAD,
    "status": "small",
    "on_workers": "small,large",
    "batch_size": "small",
}
"""Where it is not those that are compared."""

_QUICK = ["--workloads=small", "--contenders=ours-async,classic-async,single-2x1", "--repeats=1", "--secs=2"]


def _list(text: str) -> list[str]:
    found = [name for name in text.split(",") if name]
    if not found:
        raise UsageError("an empty list of workloads or contenders leaves nothing to do.")
    return found


def _check_workers(text: str) -> None:
    if not all(number.isdecimal() and int(number) > 0 for number in text.split(",")):
        raise UsageError(f"--workers={text} is not valid: use numbers above 0, such as 1,2,4.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m benchmarks",
        description="ps_train against the classic recipe and its peers, as real processes on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = "; ".join(f"{name}: {about}" for name, about in WHAT.items())
    parser.add_argument("what", nargs="?", default="compare", choices=list(WHAT), help=what)
    parser.add_argument("--workloads", default="", help=f"comma-separated: {', '.join(names())}")
    parser.add_argument("--contenders", default=compare.DEFAULT_CONTENDERS, help="comma-separated; see below")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved rounds [5]")
    parser.add_argument("--secs", type=float, default=4.0, help="steady seconds measured in each run [4]")
    parser.add_argument("--num_ps", type=int, default=1)
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--workers", default="1,2,4,8,16", help="growth: numbers of workers [1,2,4,8,16]")
    parser.add_argument("--pause_ms", type=float, default=50.0, help="growth: the pause that stands for compute [50]")
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare all test losses after the same steps",
    )
    models = ", ".join(f"{name}:{'+'.join(map(str, sizes))}" for name, sizes in graph_size.SIZES.items())
    parser.add_argument(
        "--cases", default=",".join(graph_size.SIZES), help=f"graph_size: comma-separated, of {models} [all]"
    )
    engines = ",".join(graph_size.ENGINES)
    parser.add_argument("--engines", default=engines, help=f"graph_size: comma-separated [{engines}]")
    parser.add_argument("--job_of", default="ours", help="graph_size: engines that also make a short whole job [ours]")
    parser.add_argument(
        "--observe_secs", type=float, default=30.0, help="graph_size: seconds observed after the first step [30]"
    )
    parser.add_argument("--gigabytes", default="0.5,2", help="checkpoint: comma-separated sizes of the table [0.5,2]")
    parser.add_argument(
        "--save_secs", type=float, default=60.0, help="checkpoint: seconds between saves, more than a write takes [60]"
    )
    parser.add_argument("--delay_ms", type=float, default=1.0, help="slow: delay of each task's packets [1]")
    parser.add_argument("--mbit", type=float, default=1000.0, help="slow: Mbit/s of each task's line [1000]")
    parser.add_argument("--flag", action="append", default=[], help="checkpoint: a further flag of the jobs")
    parser.add_argument("--jobs", action="store_true", help="accumulators, tune: train some as jobs of processes")
    parser.add_argument("--data", default="", help="accumulators, local_scores: comma-separated data or jobs [all]")
    parser.add_argument("--quick", action="store_true", help="a look of under two minutes, without loss check")
    parser.add_argument("--results", default=str(results.DIRECTORY), help="directory of the dated results")
    parser.add_argument(
        "--torch_python",
        default=os.environ.get(TORCH_VARIABLE, sys.executable),
        help=f"a python that has PyTorch, for ddp and torchrec [${TORCH_VARIABLE}, or this one]",
    )
    return parser
