"""Messages of the command `python -m benchmarks`."""

from __future__ import annotations

import pytest

from benchmarks import workloads
from benchmarks.__main__ import main
from benchmarks.contenders import NAMES


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workloads=smal"], "workloads=smal is not known: use some of"),
        (["--contenders=mine"], "contenders=mine is not known: use some of ours-async"),
        (["--contenders=ours-async:fast"], "'fast' is not of the form"),
        (["--repeats=0"], "--repeats=0 is not valid: use at least 1"),
        (["--secs=-1"], "--secs=-1 is not valid"),
        (["--workloads=,"], "nothing to do"),
        (["growth", "--workers=1,x"], "--workers=1,x is not valid"),
        (["accumulators", "--data=cats"], "--data=cats is not valid: use some of criteo, long_tail"),
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_help_names_every_workload_and_contender(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for name in (*workloads.names(), *NAMES, "--repeats", "--quick"):
        assert name in text
