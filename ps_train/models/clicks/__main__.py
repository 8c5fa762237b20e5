"""Makes files of the format, tells the planted model's own scores on them, measures the reader."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ps_train.errors import EXIT_DONE, ConfigError, DataError, PsTrainError
from ps_train.models.clicks.synthetic import LINES, TEST_SHARE, best_scores, write_files

_USAGE = """python -m ps_train.data.criteo --make DIRECTORY [--lines N] [--seed S] [--parts K] [--gz]
       python -m ps_train.data.criteo --scores DIRECTORY
       python -m ps_train.data.criteo --measure FILE"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see python -m ps_train.data.criteo --help.")


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not valid: use a whole number of at least {least}")
        return int(text)

    return number


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m ps_train.data.criteo", usage=_USAGE, description=__doc__, allow_abbrev=False)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--make", metavar="DIRECTORY", help="make training and test files in a new directory")
    what.add_argument("--scores", metavar="DIRECTORY", help="AUC and log-loss of the planted model on the test file")
    what.add_argument("--measure", metavar="FILE", help="lines/s of the reader on one core, read for 10 s")
    made = parser.add_argument_group("with --make")
    made.add_argument(
        "--lines",
        type=_whole(1),
        metavar="N",
        help=f"training lines, and 1/{TEST_SHARE} as many test lines [{LINES}]",
    )
    made.add_argument("--seed", type=_whole(0), metavar="S", help="of the planted model and of the lines [1]")
    made.add_argument("--parts", type=_whole(1), metavar="K", help="training files, of different lengths [1]")
    made.add_argument("--gz", action="store_true", default=None, help="gzip the files")
    return parser


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
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
            print(_measured(chosen.measure))
        else:
            parser.print_help()
        return EXIT_DONE
    except PsTrainError as error:
        print(f"ps_train: error: {error}")
        return error.exit_code


def _make(directory: str, options: dict[str, Any]) -> None:
    for path in write_files(directory, **options):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    print(_scores(directory))


def _scores(directory: str) -> str:
    scores = best_scores(directory)
    return "the planted model's own scores on the test lines: " + "  ".join(f"{n} {v:.4f}" for n, v in scores.items())


def _measured(file: str) -> str:
    if not os.path.isfile(file):  # before TensorFlow, whose import takes seconds
        raise DataError(f"{file} is no file: use a file of the format, such as train.txt.")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from ps_train.models.clicks.benchmark_reader import measure

    return measure(file).text()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
