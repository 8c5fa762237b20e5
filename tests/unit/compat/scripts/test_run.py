"""The command line of `python -m ps_train run`; tests/process/test_scripts.py runs clusters."""

from __future__ import annotations

import sys

import pytest

from ps_train.base.console import Console
from ps_train.compat.scripts import cluster_of_scripts
from ps_train.compat.scripts.cluster_of_scripts import ScriptJob
from ps_train.compat.scripts.run import main


def run(arguments):
    return main(arguments, Console(sys.stdout, sys.stderr))


@pytest.fixture
def jobs(monkeypatch):
    """The clusters that are asked for; none is started."""
    found = []

    def note(job, environ, console):
        found.append(job)
        return 5

    monkeypatch.setattr(cluster_of_scripts, "run", note)
    return found


@pytest.mark.parametrize(
    ("arguments", "job"),
    [
        (["--num_ps=2", "s.py"], ScriptJob("s.py", [], 2, 2)),
        (["--num_workers", "3", "s.py", "--num_ps=9"], ScriptJob("s.py", ["--num_ps=9"], 1, 3)),
        (["--compat", "--chief", "--evaluator", "s.py", "x"], ScriptJob("s.py", ["x"], 1, 2, "chief", True, True)),
        (["--chief=master", "s.py", "--chief=x"], ScriptJob("s.py", ["--chief=x"], 1, 2, "master")),
        (["--num_ps=1", "-m", "a.b", "--c", "-m"], ScriptJob("a.b", ["--c", "-m"], 1, 2, is_module=True)),
        (["--num_ps=0", "s.py"], ScriptJob("s.py", [], 0, 2)),
    ],
)
def test_a_cluster_is_what_the_flags_before_the_script_say(jobs, arguments, job):
    assert run(arguments) == 5
    assert jobs == [job]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "script"),
        (["--num_workers=0", "s.py"], "0 is not a whole number of at least 1"),
        (["--num_pss=1", "s.py"], "--num_pss=1"),
        (["--chief=boss", "s.py"], "'boss'"),
    ],
)
def test_wrong_flags_end_with_2(jobs, capsys, arguments, problem):
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert problem in shown and shown.count("\n") == 1 and jobs == []


@pytest.mark.parametrize("flags", [[], ["--num_ps=1"]])
def test_a_missing_script_is_an_error_of_one_line(capsys, flags):
    assert run([*flags, "/nothing.py"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("ps_train: error: the script /nothing.py ") and shown.count("\n") == 1


@pytest.mark.parametrize("module", ["no.such.module", "json.nothing", "xml"])
def test_a_missing_module_is_an_error_of_one_line(capsys, module):
    assert run(["--num_ps=1", "-m", module]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"ps_train: error: there is no module {module} to run") and shown.count("\n") == 1


def test_without_a_cluster_the_script_runs_here(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x", *sys.path])
    (tmp_path / "s.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(4)\n")
    assert run([str(tmp_path / "s.py"), "--num_ps=3"]) == 4
    assert capsys.readouterr().out == "['--num_ps=3']\n"


def test_a_module_runs_with_the_working_directory_in_its_path(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x", *sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_a_trainer").mkdir()
    (tmp_path / "of_a_trainer" / "task.py").write_text(
        "import sys\nfrom of_a_trainer import model\nprint(__name__, sys.argv[1:], model.SIZE)\n"
    )
    (tmp_path / "of_a_trainer" / "model.py").write_text("SIZE = 7\n")
    assert run(["-m", "of_a_trainer.task", "-m"]) == 0
    assert capsys.readouterr().out == "__main__ ['-m'] 7\n"
