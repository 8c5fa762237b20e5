"""A seed's storm: its job, blows and flags."""

from __future__ import annotations

import pathlib

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.flags import parse
from ps_train.config.job import Task
from tests.trials.storms.job import StormJob
from tests.trials.storms.storm import LAYOUTS, NEVER, Kind, Storm

SEEDS = range(300)


def test_storms_are_of_all_modes_kinds_and_ends() -> None:
    storms = [Storm.of(seed) for seed in SEEDS]
    blows = [blow for storm in storms for blow in storm.blows]
    assert {storm.update for storm in storms} == {"async", "sync", "bounded"}
    assert {(storm.num_ps, storm.num_workers) for storm in storms} == {(1, 2), (1, 3), (2, 2), (2, 3), (3, 3)}
    assert {blow.kind for blow in blows} == {*Kind}
    for kind in (Kind.KILL, Kind.STOP, Kind.STOP_KILL):
        assert {blow.task.partition(":")[0] for blow in blows if blow.kind == kind} == {"ps", "worker"}
    pushes = {None, "bfloat16", "float16", "int8", "auto", "top_k:0.5"}
    assert {storm.options.get("push_codec") for storm in storms} == pushes
    assert {storm.options.get("pull_codec") for storm in storms} == {None, "bfloat16", "float16", "int8"}
    assert {storm.options["steps_per_run"] for storm in storms} == {"auto", "1", "2"}
    assert {storm.layout for storm in storms if storm.update == "sync"} == {*LAYOUTS}
    assert {storm.rack_file for storm in storms if storm.racks} == {True, False}
    for option in ("max_steps_ahead", "backup_workers"):
        assert any(option in storm.options for storm in storms)
    assert any(storm.causes for storm in storms)
    assert any(storm.missing and not storm.causes for storm in storms)


@pytest.mark.parametrize("dimension", ["elastic", "moves", "dynamic", "tables"])
@pytest.mark.parametrize("update", ["async", "sync", "bounded"])
def test_every_mode_meets_every_dimension(update: str, dimension: str) -> None:
    of_it = [storm for storm in map(Storm.of, SEEDS) if storm.update == update]
    assert sum(getattr(storm, dimension) for storm in of_it) >= 10


def test_several_tasks_are_struck_in_one_moment_also_a_ps_with_the_chief_or_another_worker() -> None:
    moments = [
        {blow.task for blow in blows if blow.strikes} for storm in map(Storm.of, SEEDS) for _, blows in storm.moments()
    ]
    for pair in ({"ps:1", "worker:1"}, {"ps:0", "worker:0"}, {"ps:0", "ps:1"}):
        assert any(pair <= moment for moment in moments), pair


def test_a_storm_has_only_what_its_job_can_do() -> None:
    for storm in map(Storm.of, SEEDS):
        assert storm.blows
        left: set[str] = set()
        for blow in storm.blows:
            assert blow.task not in left
            assert storm.elastic or blow.kind not in (Kind.JOIN, Kind.LEAVE)
            assert storm.moves or not (blow.elsewhere or blow.kind == Kind.REPLACE)
            assert blow.kind != Kind.TERM or not storm.elastic or blow.task in ("ps:0", "ps:1", "worker:0")
            left |= {blow.task} if blow.kind == Kind.LEAVE or blow.secs == NEVER else set()
        assert "worker:0" not in left or storm.causes


def test_the_program_takes_the_flags_of_every_task(tmp_path: pathlib.Path) -> None:
    for storm in map(Storm.of, SEEDS):
        job = StormJob(storm, tmp_path)
        joining = [f"worker:{storm.num_workers + number}" for number in range(storm.joiners)]
        for task in joining:
            job.place(task, elsewhere=False)
        for task in [*job.tasks, *joining]:
            Cluster.of(parse(job.flags(task), {}).job).address(Task(task.partition(":")[0], int(task[-1])))


def test_a_seed_decides_everything() -> None:
    assert Storm.of(5) == Storm.of(5) != Storm.of(8)
