"""`python -m tests.trials programs FOLDER`: runs the public programs of the list again.

FOLDER has their repositories, as plain checkouts or git directories.  Each program runs in a new copy.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import ps_train
from tests.trials.programs import checkout, keras_manifest, manifest
from tests.trials.programs.program import Program
from tests.trials.running import Verdicts

PROGRAMS = [*manifest.PROGRAMS, *keras_manifest.PROGRAMS]

_ROOT = str(pathlib.Path(ps_train.__file__).parents[1])


def _run(program: Program, source: pathlib.Path, log: pathlib.Path, timeout_secs: float) -> str:
    """Runs a program in a copy of its repository; returns "" if it ended as expected, or what was wrong."""
    with tempfile.TemporaryDirectory(prefix="ps_train_program_") as name:
        folder = pathlib.Path(name)
        copy, data, model = folder / "copy", folder / "data", folder / "model"
        checkout.copy(source, copy)
        for each in (data, model):
            each.mkdir()
        if program.prepare is not None:
            program.prepare(copy, data)

        def placed(text: str) -> str:
            return text.replace("{data}", str(data)).replace("{model}", str(model))

        command = [sys.executable, "-m", "ps_train", "run", *program.switches, *program.cluster]
        command += map(placed, program.command)
        python_path = os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": python_path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        for key, value in program.environment.items():
            environment[key] = placed(value) + (f"{os.pathsep}{python_path}" if key == "PYTHONPATH" else "")
        with log.open("w") as file:
            process = subprocess.Popen(
                command,
                cwd=copy / program.folder,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout_secs)
            except subprocess.TimeoutExpired:
                return f"no end within {timeout_secs:.0f} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait()
    if code:
        return f"exit code {code}"
    return "" if re.search(program.end, log.read_text(errors="replace")) else f"no {program.end!r} in the output"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials programs", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="has the repositories: OWNER+NAME, OWNER/NAME or NAME")
    parser.add_argument("--only", default="", help="parts of names of programs, with commas")
    parser.add_argument("--list", action="store_true", help="only shows them, and which repositories are there")
    parser.add_argument("--timeout_secs", type=float, default=900, help="of each program (%(default)s)")
    parser.add_argument(
        "--logs", type=pathlib.Path, default=pathlib.Path("/tmp/ps_train_programs"), help="(%(default)s)"
    )
    given = parser.parse_args(arguments)
    parts = given.only.split(",")
    chosen = [program for program in PROGRAMS if any(part in program.name for part in parts)]
    if not chosen:
        parser.error(f"--only={given.only} names no program: --list shows them.")
    given.logs.mkdir(parents=True, exist_ok=True)
    verdicts, left_out = Verdicts("programs"), 0
    for program in chosen:
        source = checkout.find(given.folder, program.repository)
        missing = [name for name in program.needs if importlib.util.find_spec(name) is None]
        if source is None or missing:
            left_out += 1
            print(f"{program.name}: left out, {'no ' + ', '.join(missing) if source else 'no repository'}", flush=True)
        elif given.list:
            print(program.name)
        else:
            log = given.logs / (re.sub(r"\W+", "_", program.name) + ".log")
            verdicts.judge(
                program.name,
                lambda program=program, source=source, log=log: _run(program, source, log, given.timeout_secs),
                f"({log})",
            )
    print(f"{left_out} left out")
    return 0 if given.list else verdicts.end()
