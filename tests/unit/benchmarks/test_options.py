"""The command line of the benchmarks, and who takes part."""

from __future__ import annotations

import pytest

from benchmarks import options, workloads
from benchmarks.__main__ import main
from benchmarks.contenders import NAMES, Place, Setting, contender_of
from benchmarks.errors import UsageError


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


def test_quick_is_short_but_can_be_overruled():
    quick = options.parse(["--quick", "--repeats=4"])
    assert (quick.repeats, quick.workloads, quick.check) == (4, ["small"], False)
    assert options.parse(["--quick", "--check"]).check
    assert options.parse([]).repeats == 5


def test_options_of_a_contender_become_flags_and_environment():
    contender = contender_of("ours-async:accumulate=2:MALLOC_ARENA_MAX=1")
    (program,) = contender.programs(Setting("tiny"))
    assert "--accumulate=2" in program.command
    assert program.environment == {"MALLOC_ARENA_MAX": "1"}
    assert contender.name == "ours-async:accumulate=2:MALLOC_ARENA_MAX=1"


def test_every_task_is_put_where_it_belongs():
    places = {"ps:0": Place("10.0.0.1", ("exec", "a")), "worker:1": Place("10.0.0.3", ("exec", "c"))}
    programs = contender_of("ours-async").programs(Setting("tiny", places=places))
    assert [program.name for program in programs] == ["ps:0", "worker:1", "worker:0"], "the chief speaks, so it is last"
    assert programs[0].command[:2] == ["exec", "a"] and programs[1].command[:2] == ["exec", "c"]
    assert any(one.startswith("--ps_hosts=10.0.0.1:") for one in programs[2].command)


def test_a_synchronous_step_counts_for_all_workers():
    assert contender_of("ours-sync").batches_per_step(4) == 4
    assert contender_of("classic-async").batches_per_step(4) == 1


def test_an_unknown_workload_is_refused_with_those_that_are_known():
    known = "big, large, lookup, lookup_small, rows, sleeper, small, starting, tiny, wide"
    with pytest.raises(UsageError, match=known):
        workloads.load("none")


def test_a_start_up_is_of_its_own_workload_unless_another_is_named():
    assert options.parse(["startup"]).workloads == ["starting"]
    assert options.parse(["startup", "--workloads=small"]).workloads == ["small"]
    assert options.parse([]).workloads == ["small", "wide", "large"]
