"""Command line that makes synthetic files, prints the synthetic model's own scores, and measures the reader."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from ps_train.base.command_parser import CommandParser
from ps_train.base.errors import EXIT_DONE, ConfigError, DataError, PsTrainError
from ps_train.models.clicks.synthetic import LINES, TEST_SHARE, best_scores, write_files

_USAGE = """python -m ps_train.models.clicks --make DIRECTORY [--lines N] [--seed S] [--parts K] [--gz]
       python -m ps_train.models.clicks --scores DIRECTORY
       python -m ps_train.models.clicks --measure FILE"""


def _integer(minimum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text} is not valid: use a whole number of at least {minimum}")
        return int(text)

    return number


def _parser() -> CommandParser:
    parser = CommandParser("python -m ps_train.models.clicks", usage=_USAGE, description=__doc__)
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--make", metavar="DIRECTORY", help="make training and test files in a new directory")
    actions.add_argument(
        "--scores", metavar="DIRECTORY", help="AUC and log-loss of the synthetic model on the test file"
    )
    actions.add_argument("--measure", metavar="FILE", help="lines/s of the reader on one core, read for 10 s")
    make_options = parser.add_argument_group("with --make")
    make_options.add_argument(
        "--lines",
        type=_integer(1),
        metavar="N",
        help=f"training lines; there are also 1/{TEST_SHARE} of that as test lines [{LINES}]",
    )
    make_options.add_argument(
        "--seed", type=_integer(0), metavar="S", help="seed of the synthetic model and of the lines [1]"
    )
    make_options.add_argument("--parts", type=_integer(1), metavar="K", help="training files, of different lengths [1]")
    make_options.add_argument("--gz", action="store_true", default=None, help="gzip the files")
    return parser


def main(arguments: list[str]) -> int:
    """Runs the command line and returns the exit code."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout, level=logging.INFO)
    try:
        parser = _parser()
        chosen = parser.parse_args(arguments)
        options = {n: getattr(chosen, n) for n in ("lines", "seed", "parts", "gz") if getattr(chosen, n) is not None}
        if options and not chosen.make:
            raise ConfigError(f"--{next(iter(options))} is for --make DIRECTORY only.")
        if chosen.make:
            _make(chosen.make, options)
        elif chosen.scores:
            print(_scores(chosen.scores))
        elif chosen.measure:
            print(_measure(chosen.measure))
        else:
            parser.print_help()
        return EXIT_DONE
    except PsTrainError as error:
        print(f"ps_train: error: {error}", file=sys.stderr)
        return error.exit_code


def _make(directory: str, options: dict[str, Any]) -> None:
    for path in write_files(directory, **options):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    print(_scores(directory))


def _scores(directory: str) -> str:
    scores = best_scores(directory)
    return "the synthetic model's own scores on the test lines: " + "  ".join(f"{n} {v:.4f}" for n, v in scores.items())


def _measure(file: str) -> str:
    if not os.path.isfile(file):  # checked before the import of TensorFlow, which takes seconds
        raise DataError(f"{file} is not a file: use a file of the format, such as train.txt.")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from ps_train.models.clicks.benchmark_reader import measure

    return measure(file).text()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
