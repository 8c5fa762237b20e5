"""The command `python -m ps_train.models.clicks`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ps_train.models.clicks.__main__ import main


def test_the_command_makes_files_and_prints_their_scores(tmp_path, capsys):
    directory = str(tmp_path / "new")
    assert main(["--make", directory, "--lines", "300", "--parts", "2", "--gz", "--seed", "4"]) == 0
    told = capsys.readouterr().out
    assert "train-00001.txt.gz" in told
    assert "auc 0." in told
    assert main(["--scores", directory]) == 0
    assert capsys.readouterr().out.splitlines() == told.splitlines()[-1:]


def test_without_arguments_the_command_says_how_to_use_it(capsys):
    assert main([]) == 0
    told = capsys.readouterr().out
    assert "--make DIRECTORY" in told
    assert "--scores DIRECTORY" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lines", "3"], "--make"),
        (["--make"], "--make"),
        (["--make", "x", "--lines", "0"], "at least 1"),
        (["--make", "x", "--seed", "-1"], "--seed"),
        (["--make", "x", "--scores", "y"], "--scores"),
        (["--mak", "x"], "--mak"),
        (["there"], "there"),
        (["--scores", "/nowhere"], "/nowhere"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(capsys, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert len(told.err.splitlines()) == 1
    assert said in told.err
    assert told.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_command_needs_no_tensorflow_to_make_files():
    program = "import sys, ps_train.models.clicks.__main__ as m; m.main([]); assert 'tensorflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60).returncode == 0
