"""Shows whether the tests notice errors: python -m tests.trials mutation [PATH ...] [--count=30] [--seed=1] [--list]

Takes a sample of all one-line errors of the modules below PATH (default: ps_train), makes each in a temporary copy of
the project, runs there the tests of its module, and prints the mutations that survived.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.support.machine.proc import marked
from tests.trials.mutation.mutations import Mutation, mutations_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "runs", "__pycache__", "*.egg-info", ".*_cache")
MARK = "PS_TRAIN_MUTATION"
KILLED, SURVIVED, NO_TESTS, BROKEN = "killed", "SURVIVED", "NO TESTS", "BROKEN"
_OF_PYTEST = {0: SURVIVED, 1: KILLED, 5: NO_TESTS}


def find_tests(module: pathlib.Path, root: pathlib.Path = ROOT) -> list[str]:
    """Returns the test files of a module: those that its path names, and those that import it.

    Processes of their own import most of the package, so `tests/process` counts only where nothing else does.
    """
    dotted = ".".join(module.with_suffix("").parts).removesuffix(".__init__")
    parent, _, name = dotted.rpartition(".")
    imports = re.compile(
        rf"^\s*(import {re.escape(dotted)}\b|from {re.escape(dotted)} import"
        rf"|from {re.escape(parent)} import [^\n]*\b{name}\b)",
        re.MULTILINE,
    )
    place = pathlib.Path(*module.parts[1:-1])
    stem = f"test_{module.stem.strip('_')}"
    tiers = [[root / "tests/unit", root / "tests/cluster"], [root / "tests/process"]]
    for tier in tiers:
        files = [file for folder in tier for file in sorted(folder.rglob("test_*.py"))]
        named = [f for folder in tier for f in files if f.parent == folder / place and f.stem.startswith(stem)]
        found = [file for file in files if file in named or imports.search(file.read_text())]
        if found:
            return [str(file.relative_to(root)) for file in found]
    return []


class Copy:
    """A copy of the project in a temporary directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        shutil.copytree(ROOT, directory, ignore=LEFT_OUT, symlinks=True)

    def outcome(self, module: pathlib.Path, text: str, tests: list[str], timeout_secs: float) -> str:
        """Runs the tests with another text of the module, and ends all processes that they leave."""
        if not tests:
            return NO_TESTS
        path = self._directory / module
        before = path.read_text()
        path.write_text(text)
        try:
            return self._run(tests, timeout_secs)
        finally:
            path.write_text(before)

    def _run(self, tests: list[str], timeout_secs: float) -> str:
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        # A stale .pyc would hide a mutation that leaves the file's size and time as they were.
        own = {"PYTHONPATH": str(self._directory), "PYTHONDONTWRITEBYTECODE": "1", MARK: mark}
        options = ["-o", "addopts=", "-q", "-x", "-p", "no:cacheprovider", "-m", "not long", "--timeout=120"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        run = subprocess.Popen(
            command, cwd=self._directory, env=os.environ | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            code = run.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            return KILLED  # the tests hang
        finally:
            for pid in marked(f"{MARK}={mark}"):
                if pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
            run.wait()
        # TensorFlow dies of a signal where a test leaves a step that hangs.
        return KILLED if code < 0 else _OF_PYTEST.get(code, BROKEN)


def sampled(paths: list[str], seed: int, count: int) -> list[tuple[pathlib.Path, Mutation]]:
    """Returns the chosen mutations, by module: the same for the same seed and source."""
    modules: set[pathlib.Path] = set()
    for path in paths:
        given = ROOT / path
        if not given.exists():
            sys.exit(f"{path}: there is no such file or folder in the project")
        modules |= set(given.rglob("*.py")) if given.is_dir() else {given}
    every = [
        (module.relative_to(ROOT), mutation)
        for module in sorted(modules)
        for mutation in mutations_of(module.read_text())
    ]
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    print(f"{len(chosen)} of {len(every)} mutations of {len(modules)} modules, seed {seed}", flush=True)
    return sorted(chosen, key=lambda pair: (pair[0], pair[1].begin))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=["ps_train"], metavar="PATH", help="modules or folders (ps_train)")
    parser.add_argument("--count", type=int, default=30, help="how many mutations (30)")
    parser.add_argument("--seed", type=int, default=1, help="another seed is another sample (1)")
    parser.add_argument("--timeout_secs", type=float, default=400.0, help="most time for the tests of one (400)")
    parser.add_argument("--list", action="store_true", help="shows the sample and its tests, and runs nothing")
    given = parser.parse_args(arguments)
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="ps_train_mutation_") as directory:
        copy = None if given.list else Copy(pathlib.Path(directory) / "copy")
        for module, mutation in sampled(given.paths, given.seed, given.count):
            tests = find_tests(module)
            text = f"{module}: {mutation}"
            if copy is None:
                print(f"{text}\n    {' '.join(tests) or 'no tests'}")
                continue
            wrong = mutation.applied_to((ROOT / module).read_text())
            outcome = copy.outcome(module, wrong, tests, given.timeout_secs)
            print(f"{outcome:9} {text}", flush=True)
            found.setdefault(outcome, []).append(text)
    if given.list:
        return 0
    judged = len(found.get(KILLED, [])) + len(found.get(SURVIVED, []))
    print(f"{len(found.get(KILLED, []))} of {judged} killed; no tests: {len(found.get(NO_TESTS, []))}")
    for text in found.get(SURVIVED, []) + found.get(NO_TESTS, []):
        print(f"  survived  {text}")
    return 1 if found.get(BROKEN) else 0
