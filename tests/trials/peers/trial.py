"""`python -m tests.trials peers FOLDER`: the tests of TensorFlow's own Estimators and training on ps_train.

FOLDER has checkouts of tensorflow/estimator 2.15 and of TensorFlow 1.15; a path below it may lead to them.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import NamedTuple

from tests.trials.peers.suites import SUITES

_ROOT = pathlib.Path(__file__).resolve().parents[3]
EXPECTED = pathlib.Path(__file__).with_name("expected.tsv")
_KINDS = ("private", "refused", "cannot run", "wrong")


class Outcome(NamedTuple):
    """The outcome of a test: "right", or else one of `_KINDS`, with a reason."""

    kind: str
    reason: str = ""


def read_expected(path: pathlib.Path = EXPECTED) -> dict[tuple[str, str], Outcome]:
    """Returns the expected outcome of each test, by suite and name."""
    found = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        suite, test, kind, reason = line.split("\t")
        found[suite, test] = Outcome(kind, reason)
    return found


def write_expected(outcomes: dict[tuple[str, str], Outcome], path: pathlib.Path = EXPECTED) -> None:
    """Stores the outcomes."""
    lines = ["\t".join((*key, *outcomes[key])) for key in sorted(outcomes)]
    path.write_text("\n".join(lines) + "\n")


def find(folder: pathlib.Path, tail: str) -> pathlib.Path | None:
    """Returns a file of a checkout in a folder: the checkout may be the folder itself, or one or two levels below."""
    for pattern in (tail, f"*/{tail}", f"*/*/{tail}"):
        for path in sorted(folder.glob(pattern)):
            return path
    return None


def run(file: pathlib.Path, limit_secs: float) -> dict[str, Outcome]:
    """Runs a test file in a process of its own, and returns the outcomes by test."""
    with tempfile.TemporaryDirectory(prefix="ps_train_peers_") as directory:
        out = pathlib.Path(directory) / "out"
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": directory}
        environment = {name: value for name, value in environment.items() if name != "TF_CONFIG"}
        with (pathlib.Path(directory) / "log").open("w+") as log:
            command = [sys.executable, "-m", "tests.trials.peers.suite", str(file), str(out)]
            started = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=subprocess.STDOUT)
            try:
                code = started.wait(limit_secs)
                ended = f"the process ended with code {code}"
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
                ended = f"no end in {limit_secs:g}s"
        return outcomes_of(out.read_text().splitlines() if out.is_file() else [], ended)


def outcomes_of(lines: Iterable[str], ended: str) -> dict[str, Outcome]:
    """Returns the outcomes that a suite has written, by test; one that has only begun stopped the process."""
    found: dict[str, Outcome] = {}
    for line in lines:
        values = json.loads(line)
        if "outcome" not in values:
            found[values["test"]] = Outcome("wrong", ended)
        elif values["outcome"] == "skipped":
            del found[values["test"]]
        else:
            found[values["test"]] = Outcome(values["outcome"], values["error"])
    return found or {"*": Outcome("cannot run", ended)}


def changes(
    found: dict[tuple[str, str], Outcome], expected: dict[tuple[str, str], Outcome], suites: Iterable[str]
) -> list[str]:
    """Returns a line for each test of some suites that is right where it was not, or the other way round."""
    lines = []
    for key in sorted(found.keys() | {key for key in expected if key[0] in suites}):
        now, before = found.get(key), expected.get(key)
        if (now is not None and now.kind == "right") != (before is not None and before.kind == "right"):
            was = "new" if before is None else before.kind
            shown = "gone" if now is None else f"{now.kind} {now.reason}".strip()
            lines.append(f"{key[0]} {key[1]}: was {was}, is {shown}")
    return lines


def kept(found: Outcome, before: Outcome | None) -> Outcome:
    """Returns the outcome to store: the kind and the reason that a person has given for a failure stay."""
    is_same = before is not None and before.kind not in ("right", "wrong") and found.kind != "right"
    return before if is_same and before is not None else found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials peers", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="has the checkouts")
    parser.add_argument("--only", default="", help="suites by words of their names, with commas between them")
    parser.add_argument("--limit_secs", type=float, default=1800, help="for a suite (%(default)g)")
    parser.add_argument("--write", action="store_true", help="stores the outcomes as the expected ones")
    given = parser.parse_args(arguments)
    words = [word for word in given.only.split(",") if word]
    suites = [name for name in SUITES if not words or any(word in name for word in words)]
    if not suites:
        parser.error(f"--only={given.only} names no suite: use words of {', '.join(SUITES)}.")
    expected, found, missing, changed = read_expected(), {}, [], []
    for name in suites:
        file, began = find(given.folder, SUITES[name]), time.monotonic()
        if file is None:
            missing.append(name)
            continue
        of_suite = {(name, test): outcome for test, outcome in run(file, given.limit_secs).items()}
        found.update(of_suite)
        right = sum(outcome.kind == "right" for outcome in of_suite.values())
        print(f"{name:<32} {right:>3} of {len(of_suite):>3} right  {time.monotonic() - began:5.0f}s", flush=True)
        for line in changes(of_suite, expected, [name]):
            changed.append(line)
            if not given.write:
                print(f"  {line}", flush=True)
        if given.write:
            expected = read_expected()  # another run may have written
            others = {key: outcome for key, outcome in expected.items() if key[0] != name}
            expected = others | {key: kept(outcome, expected.get(key)) for key, outcome in of_suite.items()}
            write_expected(expected)
    if missing:
        print(f"not in {given.folder}: {', '.join(missing)}")
    if not found:
        parser.error(f"{given.folder} has none of the peers' test files: give the folder of their checkouts.")
    kinds = {kind: sum(outcome.kind == kind for key, outcome in expected.items() if key in found) for kind in _KINDS}
    print(f"{len(changed)} changes; expected of these: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    return 1 if changed and not given.write else 0
