"""Predict for the rows of files with an exported model.

    python -m ps_train predict --export_dir=export --data='data/test-*.parquet' --to=scored.parquet

The result has the columns of the data, then the outputs of the model, in the order of the data.  The data are Parquet
files, TFRecord files of `tf.train.Example`s, or text: csv and tsv with a line of names, or a JSON object a line
(jsonl).  After any end of the process start the same command again to resume.  help: serve#score-files
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ps_train.base.children import signal_at_parents_end
from ps_train.base.command_parser import CommandParser, whole_number
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, ConfigError, TrainingError
from ps_train.base.tf_import import import_quietly
from ps_train.config.error_line import run_command
from ps_train.config.paths import local_path
from ps_train.config.verbs import VERBS
from ps_train.saved.scoring.formats import FORMATS

_PROGRESS_SECS = 5.0


def predict(arguments: Sequence[str], console: Console) -> int:
    """Predicts for files; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the report and messages.
    """
    return run_command(lambda: _run(command_line().parse_args(arguments), console), console, VERBS["predict"].page)


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser("python -m ps_train predict", description=__doc__)
    parser.add_argument("--export_dir", required=True, metavar="DIR", help="SavedModel, or directory of numbered ones")
    add_data_flags(parser)
    parser.add_argument("--to", required=True, metavar="FILE", help="the result; its name gives its format")
    parser.add_argument("--to_format", choices=FORMATS, default="", help="format of the result [by its name]")
    parser.add_argument(
        "--columns", metavar="NAME,...", may_be_empty=True, help="columns of the data in the result [all]"
    )
    parser.add_argument("--prefix", default="", may_be_empty=True, help="what the names of predictions begin with")
    parser.add_argument("--signature", default="", help="signature of the SavedModel [serving_default]")
    parser.add_argument("--batch_size", type=whole_number(1), default=4096, help="rows of one call of the model [4096]")
    parser.add_argument("--num_workers", type=whole_number(1), default=1, help="processes that predict [1]")
    parser.add_argument("--overwrite", action="store_true", help="replace a result that is there already")
    return parser


def add_data_flags(parser: CommandParser) -> None:
    """Adds the flags of data."""
    parser.add_argument("--data", required=True, metavar="FILES", help="patterns of files, separated by commas")
    parser.add_argument("--format", choices=FORMATS, default="", help="format of the data [by name and content]")
    parser.add_argument("--header", metavar="NAME,...", help="columns of csv and tsv files without a line of names")
    parser.add_argument(
        "--default", action="append", default=[], metavar="NAME,...=VALUE", help="value of columns where it is missing"
    )
    parser.add_argument(
        "--types", action="append", default=[], metavar="NAME,...=TYPE", help="type of columns of text in the result"
    )
    parser.add_argument("--model", default="", help="PACKAGE.MODULE:CLASS whose data() reads the directory --data")
    parser.add_argument(
        "--model_arg", action="append", default=[], metavar="NAME=VALUE", help="argument of the model's constructor"
    )
    parser.add_argument("--split", default="test", help="split of the model's data() [test]")


def names(text: str | None) -> tuple[str, ...]:
    """Returns the names of a list with commas."""
    return tuple(filter(None, (name.strip() for name in (text or "").split(","))))


def data_spec(given: argparse.Namespace) -> Any:
    """Returns the DataSpec of the flags of data.

    Raises:
      ConfigError: a default has no value.
    """
    from ps_train.saved.scoring.rows import DataSpec

    defaults = [(name, value) for some, value in _named_values("default", given.default) for name in names(some)]
    types = {name: value for some, value in _named_values("types", given.types) for name in names(some)}
    arguments = dict(_named_values("model_arg", given.model_arg))
    if arguments and not given.model:
        raise ConfigError("--model_arg is for --model, which is not given.")
    if given.model and (given.format or given.header or defaults or types):
        raise ConfigError(
            "--format, --header, --default and --types are not for --model, whose data() reads the files."
        )
    header = names(given.header)
    return DataSpec(names(given.data), given.format, header, defaults, types, given.model, arguments, given.split)


def _named_values(flag: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag}={text} is not NAME=VALUE.")
        yield name, value


def _run(given: argparse.Namespace, console: Console) -> int:
    import_quietly()
    from ps_train.saved.scoring.resumable import Scoring, ScoringPlan, ScoringProgress, check_target

    columns = None if given.columns is None else names(given.columns)
    options = (given.signature, given.to_format, columns, given.prefix, given.batch_size)
    export, target = local_path("export_dir", given.export_dir, ""), local_path("to", given.to, "")
    plan = ScoringPlan(export, data_spec(given), target, *options)
    began = time.monotonic()
    check_target(plan, given.overwrite)
    scoring = Scoring(plan)
    with ScoringProgress.of(plan, scoring) as progress:
        parts = progress.open_parts()
        if len(parts) < scoring.data.parts:
            console.line(f"resuming: {scoring.data.parts - len(parts)} of {scoring.data.parts} parts are done")
        workers = min(given.num_workers, len(parts))
        if workers > 1:
            scoring.close()
            _in_processes(plan, parts, workers)
        else:
            shown = began
            for number, part in enumerate(parts):
                scoring.score_part(part)
                if time.monotonic() - shown >= _PROGRESS_SECS:
                    shown = time.monotonic()
                    console.progress(f"part {number + 1} of {len(parts)}")
        rows = progress.finish()
    secs = time.monotonic() - began
    console.line(f"{rows} rows in {secs:.1f} s are in {plan.to}")
    return EXIT_DONE


_scoring: Any = None


def _in_processes(plan: Any, parts: Sequence[int], workers: int) -> None:
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _start_worker, (pickle.dumps(plan), threads, os.getpid())) as pool:
        futures = [pool.submit(_score_part, part) for part in parts]
        try:
            for future in futures:
                future.result()
        except BrokenProcessPool:
            raise TrainingError(
                "a process of --num_workers has ended: start the same command again to resume."
            ) from None
        finally:
            for future in futures:
                future.cancel()


def _start_worker(plan: bytes, threads: int, parent: int) -> None:
    global _scoring
    signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(EXIT_FAILED)
    import_quietly()
    from ps_train.saved.scoring.resumable import Scoring

    _scoring = Scoring(pickle.loads(plan), threads)  # its class imports TensorFlow


def _score_part(part: int) -> None:
    _scoring.score_part(part)
