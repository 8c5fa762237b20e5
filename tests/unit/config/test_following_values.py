"""Values of --max_steps_ahead, --backup_workers and --push_codec that may follow measurements."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job


@pytest.mark.parametrize(("value", "limits"), [(0, (0, 0)), (3, (3, 3)), ("3", (3, 3)), ("0..8", (0, 8))])
def test_the_lead_is_a_number_or_two(value: int | str, limits: tuple[int, int]) -> None:
    assert Job(update="bounded", max_steps_ahead=value).steps_ahead_limits == limits


@pytest.mark.parametrize(
    ("value", "workers", "limits"),
    [(2, 9, (2, 2)), ("2", 9, (2, 2)), ("auto", 2, (0, 1)), ("auto", 10, (0, 1)), ("auto", 11, (0, 2))],
)
def test_the_backup_workers_are_a_number_or_up_to_a_tenth(
    value: int | str, workers: int, limits: tuple[int, int]
) -> None:
    found = Job(update="sync", backup_workers=value).backup_limits(workers)
    assert found == limits and found.is_range == (limits[0] < limits[1])


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_steps_ahead", v) for v in (-1, "8..0", "3..3", "auto", "1.5", "")]
    + [("backup_workers", v) for v in (-1, "0..2", "some", "")],
)
def test_other_values_are_refused(field: str, value: int | str) -> None:
    with pytest.raises(ConfigError, match=field):
        Job(update="bounded" if field == "max_steps_ahead" else "sync", **{field: value})


def test_one_worker_has_no_backup() -> None:
    job = Job(update="sync", backup_workers="auto", ps_hosts=("a:1",), worker_hosts=("a:2",))
    with pytest.raises(ConfigError) as caught:
        Cluster.of(job)
    assert str(caught.value) == "backup_workers=auto is too much for a job of 1 workers: use at most 0."


def test_a_number_and_its_text_are_the_same_job() -> None:
    assert (
        Job(max_steps_ahead=2, update="bounded").shared_fields()
        == Job(max_steps_ahead="2", update="bounded").shared_fields()
    )
    assert Job(max_steps_ahead="1", update="bounded").steps_ahead_limits == (1, 1)


@pytest.mark.parametrize(("text", "codecs"), [("int8", ("int8",)), ("auto", ("none", "bfloat16", "int8"))])
def test_the_codecs_of_a_push_are_one_or_the_ladder(text: str, codecs: tuple[str, ...]) -> None:
    assert Job(push_codec=text).push_codecs == codecs
