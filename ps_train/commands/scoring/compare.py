"""Compare two exported models on the same rows: AUC, log-loss and calibration, with intervals of their differences.

    python -m ps_train compare export/1 export/2 --data='data/test-*.parquet' --label=click --by=country
    python -m ps_train compare export/1 export/2 --data=DIR --model=ps_train.models.criteo:DeepFM

Each model takes the columns that it needs.  The intervals are from a paired bootstrap: 95 of 100 resamples of the
rows lie within them.  help: serve#compare-two-models
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ps_train.base.command_parser import CommandParser, whole_number
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, ConfigError, DataError
from ps_train.base.tf_import import import_quietly
from ps_train.commands.scoring.predict import add_data_flags, data_spec, names
from ps_train.config.error_line import run_command
from ps_train.config.verbs import VERBS

_ALL = "all rows"


def compare(arguments: Sequence[str], console: Console) -> int:
    """Compares two models; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the report and messages.
    """
    return run_command(lambda: _run(command_line().parse_args(arguments), console), console, VERBS["compare"].page)


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser("python -m ps_train compare", description=__doc__)
    parser.add_argument("first", metavar="A", help="SavedModel, or directory of numbered ones")
    parser.add_argument("second", metavar="B", help="the other one")
    add_data_flags(parser)
    parser.add_argument("--label", default="label", help="column of the labels, 0 or 1 [label]")
    parser.add_argument("--by", default="", metavar="NAME,...", help="columns by whose values the rows are divided")
    parser.add_argument("--output", default="", help="output with the probabilities [probabilities, or the only one]")
    parser.add_argument(
        "--most_slices", type=whole_number(1), default=20, help="most values of a column that are shown [20]"
    )
    parser.add_argument("--resamples", type=whole_number(1), default=1000, help="resamples of the bootstrap [1000]")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="seed of the resamples [0]")
    parser.add_argument("--batch_size", type=whole_number(1), default=4096, help="rows of one call of a model [4096]")
    parser.add_argument("--json", default="", metavar="FILE", help="file for all numbers")
    return parser


def _run(given: argparse.Namespace, console: Console) -> int:
    import_quietly()
    import numpy as np

    from ps_train.saved.scoring.statistics import Pair, intervals

    spec, by = data_spec(given), names(given.by)
    with _opened(given.second, spec, given, ()):
        pass  # a mistake is told before the first model has scored all rows
    first, columns = _scored(given.first, spec, given, by)
    second, other_columns = _scored(given.second, spec, given, ())
    labels = columns.pop(given.label)
    if len(first) != len(second) or not np.array_equal(labels, other_columns[given.label]):
        raise DataError("the data have changed between the two models: compare again.")
    sets: dict[str, Any] = {_ALL: np.arange(len(labels))}
    for name in by:
        sets |= {f"{name}={value}": rows for value, rows in _slices(columns[name], given.most_slices).items()}
    pairs = {name: (Pair(labels[rows], first[rows], second[rows]), rows) for name, rows in sets.items()}
    found = intervals(pairs, len(labels), given.resamples, given.seed)
    report = {
        "a": given.first, "b": given.second, "rows": len(labels), "resamples": given.resamples, "seed": given.seed,
        "slices": {name: _numbers(pair, found[name]) for name, (pair, _) in pairs.items()},
    }  # fmt: skip
    for line in _lines(report):
        console.line(line)
    if given.json:
        try:
            with open(given.json, "w") as file:
                json.dump(report, file, indent=1)
        except OSError as error:
            raise ConfigError(f"json={given.json} cannot be written ({error.strerror}): use another path.") from None
    return EXIT_DONE


@contextlib.contextmanager
def _opened(path: str, spec: Any, given: argparse.Namespace, by: Sequence[str]) -> Iterator[tuple[Any, str, Any]]:
    """Gives a model, its output with the probabilities, and the data, all checked."""
    from ps_train.saved.scoring.opened_data import open_data
    from ps_train.saved.serving.exported import Exported

    with contextlib.closing(Exported(path)) as exported:
        output = _output(path, exported.outputs, given.output)
        yield exported, output, open_data(spec, exported, [given.label, *by])


def _scored(path: str, spec: Any, given: argparse.Namespace, by: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Returns the probabilities of a model, float64 [n], and the label and the columns by their names."""
    import numpy as np

    wanted = list(dict.fromkeys([given.label, *by]))
    probabilities: list[Any] = []
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    with _opened(path, spec, given, by) as (exported, output, data):
        for part in range(data.parts):
            for rows in data.read(part, given.batch_size):
                probabilities.append(np.ravel(rows.predictions(exported)[output]))
                for name, array in rows.carried(wanted).items():
                    columns[name] += array.to_pylist()
    if not probabilities:
        raise DataError("the data have no rows: check --data.")
    found = np.concatenate(probabilities).astype(np.float64)
    labels = _labels(given.label, columns[given.label])
    if len(found) != len(labels):
        raise DataError(
            f"output {output} of {path} has {len(found)} numbers for {len(labels)} rows: choose one by --output."
        )
    if not ((found >= 0) & (found <= 1)).all():
        raise DataError(
            f"output {output} of {path} is not a probability everywhere: choose one from 0 to 1 by --output."
        )
    others = {name: [_bytes_of(value) for value in columns[name]] for name in by}
    return found, {**others, given.label: labels}


def _output(path: str, outputs: Sequence[str], chosen: str) -> str:
    usual = [chosen] if chosen else ["probabilities", *(outputs if len(outputs) == 1 else [])]
    for name in usual:
        if name in outputs:
            return name
    raise ConfigError(f"{path} has the outputs {', '.join(outputs)}: name the probabilities by --output.")


def _labels(name: str, values: Sequence[Any]) -> Any:
    import numpy as np

    try:
        labels = np.array(values, np.float64)
    except (TypeError, ValueError):
        labels = np.zeros([0])
    if labels.shape != (len(values),) or not np.isin(labels, (0, 1)).all():
        wrong = next((value for value in values if value not in (0, 1, "0", "1", "0.0", "1.0")), None)
        raise DataError(f"the label {name} has the value {wrong!r}: labels are 0 or 1; choose their column by --label.")
    return labels


def _bytes_of(value: Any) -> bytes:
    """Returns a value as --by divides rows: bytes and texts as they are, and b"" for a missing one."""
    if value is None or isinstance(value, bytes):
        return value or b""
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


def _slices(values: Sequence[bytes], most: int) -> Mapping[str, Any]:
    """Returns value to the numbers of its rows, those with the most rows first; the rest together."""
    import numpy as np

    from ps_train.config.slice_names import OTHERS, names_of_values

    numbers: dict[bytes, list[int]] = {}
    for row, value in enumerate(values):
        numbers.setdefault(value, []).append(row)
    known = sorted(numbers, key=lambda value: (-len(numbers[value]), value))
    shown = known[:most]
    rows = {name: np.array(numbers[value]) for name, value in zip(names_of_values(shown), shown, strict=True)}
    if len(known) > most:
        rows[OTHERS] = np.sort(np.concatenate([numbers[value] for value in known[most:]]))
    return rows


def _numbers(pair: Any, found: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Returns the numbers of a slice; None instead of NaN, which JSON does not have."""
    metrics: dict[str, Any] = {"rows": len(pair)}
    for name, (first, second) in pair.metrics().items():
        numbers = [first, second, second - first, *found[name]]
        keys = ("a", "b", "difference", "low", "high")
        metrics[name] = {key: None if one != one else one for key, one in zip(keys, numbers, strict=True)}
    return metrics


def _lines(report: Mapping[str, Any]) -> list[str]:
    rows = [("rows", "metric", "A", "B", "B - A", "95 % interval", "slice")]
    for name, found in report["slices"].items():
        for metric, numbers in ((key, value) for key, value in found.items() if key != "rows"):
            cells = [_cell(numbers[key]) for key in ("a", "b")]
            ends = [_cell(numbers[key], "+.5f") for key in ("difference", "low", "high")]
            rows.append((str(found["rows"]), metric, *cells, ends[0], f"{ends[1]} to {ends[2]}", name))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [f"A: {report['a']}, B: {report['b']}; {report['resamples']} resamples, seed {report['seed']}"]
    for row in rows:
        lines.append("  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[6]]))
    return lines


def _cell(number: float | None, form: str = ".5f") -> str:
    return "-" if number is None else format(number, form)
