"""Command lines, places and steps of the contenders."""

from __future__ import annotations

from benchmarks import contenders
from benchmarks.contenders import Place, Setting, contender_of


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


def test_the_control_is_the_classic_recipe_with_our_numbers_of_threads(monkeypatch):
    monkeypatch.setattr(contenders, "available_cores", lambda: 2)
    plain = contender_of("classic-async").programs(Setting("tiny"))
    control = contender_of("classic-threads").programs(Setting("tiny"))
    assert [program.name for program in control] == [program.name for program in plain]
    for program in control:
        threads = {name: value for name, value in program.environment.items() if name.endswith("OP_THREADS")}
        operations = "4" if program.name == "ps:0" else "1"
        assert threads == {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": operations}, program.name
