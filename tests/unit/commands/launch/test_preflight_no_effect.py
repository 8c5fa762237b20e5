"""A flag that this process ignores is named, and no other."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.launch.preflight import flags_without_effect
from ps_train.config import flags

HOSTS = ("--ps_hosts=a:1", "--worker_hosts=b:2,c:3")


def lines_of(*arguments: str) -> list[str]:
    parsed = flags.parse(arguments, {})
    return flags_without_effect(parsed.job, parsed.task)


def test_a_task_index_without_a_job_name_is_named_with_its_source() -> None:
    (line,) = lines_of("--task_index=1")
    assert line.startswith("task_index=1 (from the command line) has no effect") and "--job_name" in line


@pytest.mark.parametrize("flag", ["num_ps", "num_workers", "max_restarts"])
def test_what_only_a_launcher_uses_is_named_in_another_process(flag: str) -> None:
    (line,) = lines_of(*HOSTS, "--job_name=worker", "--task_index=0", f"--{flag}=3")
    assert line.startswith(f"{flag}=3 (from the command line) has no effect on worker")
    assert lines_of(f"--{flag}=3") == []


def test_a_health_port_is_named_where_one_command_starts_all_tasks() -> None:
    (line,) = lines_of("--health_port=8081")
    assert line.startswith("health_port=8081 (from the command line) has no effect: ")
    assert lines_of("--health_port=-1") == []
    assert lines_of(*HOSTS, "--job_name=worker", "--task_index=0", "--health_port=8081") == []


def test_the_number_of_workers_counts_where_the_lists_have_indices() -> None:
    some = ("--ps_hosts=a:1", "--worker_hosts=1=c:3", "--job_name=worker", "--task_index=1")
    assert lines_of(*some, "--num_workers=3") == []


def test_flags_of_the_job_and_of_other_tasks_are_not_named() -> None:
    for task in (("--job_name=ps", "--task_index=0"), ("--job_name=worker", "--task_index=1"), ()):
        assert lines_of(*HOSTS, *task, "--model_dir=/m", "--export_dir=/e", "--max_steps=5", "--log_secs=1") == []


def test_an_evaluator_takes_the_flags_of_the_job() -> None:
    of_launcher = ("--num_ps=1", "--num_workers=2", "--max_restarts=3")
    assert lines_of("--job_name=evaluator", "--model_dir=/m", *of_launcher) == []


def test_a_profile_that_begins_at_the_end_of_the_job_is_named() -> None:
    (line,) = lines_of("--profile=100:5", "--max_steps=100")
    assert line == "profile=100:5 (from the command line) has no effect: the job ends at max_steps=100."
    assert lines_of("--profile=99:5", "--max_steps=100") == lines_of("--max_steps=100") == []


@pytest.mark.parametrize("text", ["5", "5:", ":5", "5:0", "5:1001", "-5:5", "a:b", "5:5:5", "5: 5"])
def test_a_profile_is_step_and_count(text: str) -> None:
    with pytest.raises(ConfigError, match="STEP:COUNT with 1 to 1000 steps, for example 200:20"):
        flags.parse([f"--profile={text}"], {})
