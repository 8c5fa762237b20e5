"""The verbs `delta` and `apply`.

    python -m ps_train delta export/1 export/2 --to=deltas/0002     # writes what has changed
    python -m ps_train apply export/1 deltas/0002 --to=copy/2       # gives export/2 back, bit for bit

Both take SavedModels, checkpoints, or directories whose newest checkpoint is used.  help: serve#deltas
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence

from ps_train.base import malloc
from ps_train.base.command_parser import CommandParser
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE
from ps_train.base.tf_import import import_quietly
from ps_train.config.error_line import run_command
from ps_train.config.paths import check_local
from ps_train.config.verbs import VERBS

__all__ = ["apply", "delta"]

_MIB = 1 << 20


def delta(arguments: Sequence[str], console: Console) -> int:
    """Writes a delta; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the report and messages.
    """
    return _run(delta_command_line(), arguments, console, _delta)


def delta_command_line() -> CommandParser:
    """Returns the parser of the command line of `delta`."""
    parser = CommandParser("python -m ps_train delta", description=__doc__)
    parser.add_argument("old", metavar="OLD", help="checkpoint, its directory or SavedModel from which the delta leads")
    parser.add_argument("new", metavar="NEW", help="the one to which it leads")
    parser.add_argument("--to", required=True, metavar="DIR", help="new directory of the delta")
    return parser


def apply(arguments: Sequence[str], console: Console) -> int:
    """Applies deltas to a base; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the report and messages.
    """
    return _run(apply_command_line(), arguments, console, _apply)


def apply_command_line() -> CommandParser:
    """Returns the parser of the command line of `apply`."""
    parser = CommandParser("python -m ps_train apply", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="checkpoint, its directory or SavedModel")
    parser.add_argument("deltas", metavar="DELTA", nargs="+", help="directories of deltas, in the order of time")
    parser.add_argument("--to", required=True, metavar="DIR", help="new directory of the result")
    return parser


def _run(
    parser: CommandParser,
    arguments: Sequence[str],
    console: Console,
    work: Callable[[argparse.Namespace, Console], None],
) -> int:
    def run() -> int:
        given = parser.parse_args(arguments)
        for name, paths in vars(given).items():
            for path in paths if isinstance(paths, list) else [paths]:
                check_local(name, path)
        malloc.return_large_blocks(os.environ)
        import_quietly()
        work(given, console)
        return EXIT_DONE

    return run_command(run, console, VERBS["delta"].page)


def _delta(given: argparse.Namespace, console: Console) -> None:
    from ps_train.engine.run_directory.checkpoint_contents import GLOBAL_STEP
    from ps_train.saved.deltas.difference import make_delta
    from ps_train.saved.deltas.manifest import described
    from ps_train.saved.values import open_saved

    old, new = open_saved(given.old), open_saved(given.new)
    manifest = make_delta(old, new, given.to)
    rows: dict[str, int] = {}
    for entry in manifest.entries:
        rows[entry.key] = rows.get(entry.key, 0) + entry.rows
    for key in sorted(rows):
        shape = manifest.kinds[key][0]
        console.line(f"{key}: {rows[key]} of {shape[0]} rows" if shape else f"{key}: changed")
    for table, change in manifest.vocabularies.items():
        if change.added >= 0:
            console.line(f"{table}: {change.added} ids are new, {change.removed} are gone")
    kinds, before = new.values.kinds, old.values.kinds
    if other := sorted(key for key in before | kinds if before.get(key) != kinds.get(key)):
        console.line(
            f"note: {len(other)} variables are not of the same shape and dtype in both, such as {other[0]}: served "
            "models need a new base"
        )
    files = _files_in(new.folder) if new.folder else _files_of(new.values.path)
    full = sum(map(os.path.getsize, files))
    size = sum(map(os.path.getsize, _files_in(given.to)))
    console.line(
        f"delta from {described(manifest.base)} to {described(manifest.next)}: {size / _MIB:.2f} MiB "
        f"({size / max(1, full):.1%} of {full / _MIB:.2f} MiB) in {given.to}"
    )
    sizes = {key: shape[0] if shape else 1 for key, (shape, _) in manifest.kinds.items() if key != GLOBAL_STEP}
    if all(rows.get(key, 0) == count for key, count in sizes.items()):
        console.line("note: every row of every variable differs (is it of another training?): copy the new one whole")


def _apply(given: argparse.Namespace, console: Console) -> None:
    from ps_train.saved.deltas.applying import apply_deltas
    from ps_train.saved.values import open_saved

    result = apply_deltas(open_saved(given.base), given.deltas, given.to)
    console.line(f"{given.base} and {len(given.deltas)} deltas are {result.folder or result.values.path}")


def _files_in(folder: str) -> list[str]:
    return [os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names]


def _files_of(prefix: str) -> list[str]:
    folder, name = os.path.split(prefix)
    return [os.path.join(folder, one) for one in os.listdir(folder) if one == name or one.startswith(name + ".")]
