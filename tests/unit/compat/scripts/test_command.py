"""The command line of `python -m ps_train.run`; tests/process/test_scripts.py runs clusters."""

from __future__ import annotations

import pytest

from ps_train import run
from ps_train.compat.scripts import cluster_of_scripts
from ps_train.compat.scripts.cluster_of_scripts import ScriptJob


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
        (["--compat", "--chief", "--evaluator", "s.py", "x"], ScriptJob("s.py", ["x"], 1, 2, True, True, True)),
        (["--num_ps=0", "s.py"], ScriptJob("s.py", [], 0, 2)),
    ],
)
def test_a_cluster_is_what_the_flags_before_the_script_say(jobs, arguments, job):
    assert run.main(arguments) == 5
    assert jobs == [job]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "script"),
        (["--num_workers=0", "s.py"], "'0' is not a count: use a whole number from 1 on"),
        (["--num_pss=1", "s.py"], "--num_pss=1"),
    ],
)
def test_wrong_flags_end_with_2(jobs, capsys, arguments, problem):
    assert run.main(arguments) == 2
    shown = capsys.readouterr().err
    assert problem in shown and shown.count("\n") == 1 and jobs == []


@pytest.mark.parametrize("flags", [[], ["--num_ps=1"]])
def test_a_missing_script_is_an_error_of_one_line(capsys, flags):
    assert run.main([*flags, "/nothing.py"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("ps_train: error: the script /nothing.py ") and shown.count("\n") == 1


def test_without_a_cluster_the_script_runs_here(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x"])
    (tmp_path / "s.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(4)\n")
    assert run.main([str(tmp_path / "s.py"), "--num_ps=3"]) == 4
    assert capsys.readouterr().out == "['--num_ps=3']\n"
