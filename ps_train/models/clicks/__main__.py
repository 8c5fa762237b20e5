"""Command line that makes synthetic files, and prints the synthetic model's own scores."""

from __future__ import annotations

import logging
import sys
from typing import Any

from ps_train.base.command_parser import CommandParser, whole_number
from ps_train.base.errors import EXIT_DONE, ConfigError, PsTrainError, with_page
from ps_train.models.clicks.synthetic import LINES, TEST_SHARE, best_scores, write_files

_USAGE = """python -m ps_train.models.clicks --make DIRECTORY [--lines N] [--seed S] [--parts K] [--gz]
       python -m ps_train.models.clicks --scores DIRECTORY"""


def _parser() -> CommandParser:
    parser = CommandParser("python -m ps_train.models.clicks", usage=_USAGE, description=__doc__)
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--make", metavar="DIRECTORY", help="make training and test files in a new directory")
    actions.add_argument(
        "--scores", metavar="DIRECTORY", help="AUC and log-loss of the synthetic model on the test file"
    )
    add = parser.add_argument_group("with --make").add_argument
    lines_help = f"training lines; there are also 1/{TEST_SHARE} of that as test lines [{LINES}]"
    add("--lines", type=whole_number(1), metavar="N", help=lines_help)
    add("--seed", type=whole_number(0), metavar="S", help="seed of the synthetic model and of the lines [1]")
    add("--parts", type=whole_number(1), metavar="K", help="training files, of different lengths [1]")
    add("--gz", action="store_true", default=None, help="gzip the files")
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
        else:
            parser.print_help()
        return EXIT_DONE
    except PsTrainError as error:
        print(with_page(f"ps_train: error: {error}", "clicks#make-the-files"), file=sys.stderr)
        return error.exit_code


def _make(directory: str, options: dict[str, Any]) -> None:
    for path in write_files(directory, **options):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    print(_scores(directory))


def _scores(directory: str) -> str:
    scores = best_scores(directory)
    return "the synthetic model's own scores on the test lines: " + "  ".join(f"{n} {v:.4f}" for n, v in scores.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
