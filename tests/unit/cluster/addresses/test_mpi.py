"""Ranks of MPI: the names of several implementations, hostfiles and host lists."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.mpi import RANKS, resolve

LISTS = {"port": 2222, "ps_hosts": ("a:1",), "worker_hosts": ("b:1", "c:1")}


@pytest.fixture
def hostfile(tmp_path):
    def write(text):
        (tmp_path / "hosts").write_text(text)
        return {"port": 2222, "num_ps": 1, "hostfile": str(tmp_path / "hosts")}

    return write


def refusal(given, environ):
    with pytest.raises(ConfigError) as caught:
        resolve(given, environ)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("names", RANKS, ids=[names[0] for names in RANKS])
@pytest.mark.parametrize(("rank", "task"), [("0", ("ps", 0)), ("1", ("worker", 0)), ("2", ("worker", 1))])
def test_a_rank_is_a_task_of_the_host_lists(names, rank, task):
    found = resolve(LISTS, {names[0]: rank, names[1]: "3", names[2]: "7"})
    assert found == ({}, {"job_name": task[0], "task_index": task[1]}, "MPI")


def test_a_chief_is_between_the_ps_and_the_workers():
    found = resolve({**LISTS, "chief_hosts": ("d:1",)}, {"OMPI_COMM_WORLD_RANK": "1"})
    assert found.task == {"job_name": "chief", "task_index": 0}


def test_the_lists_may_be_in_a_cluster_file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text('{"ps": ["a:1"], "worker": ["b:1"]}')
    assert resolve({"port": 1, "cluster_file": str(path)}, {"PMI_RANK": "1"}).task["job_name"] == "worker"


def test_the_slots_of_a_hostfile_are_filled_in_its_order(hostfile):
    given = hostfile("# nodes\na\nb slots=2  max_slots=4\n\nc:2\n[::1] slots = 1\n")
    found = resolve(
        given, {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    )
    assert found.task == {"job_name": "worker", "task_index": 1}
    assert found.job["ps_hosts"] == ("a:2222",)
    assert found.job["worker_hosts"] == ("b:2222", "b:2223", "c:2222", "c:2223", "[::1]:2222")


def test_with_fewer_tasks_than_slots_the_first_slots_are_used(hostfile):
    found = resolve(hostfile("a slots=8"), {"PMI_RANK": "0", "PMI_SIZE": "3"})
    assert found.job == {"ps_hosts": ("a:2222",), "worker_hosts": ("a:2223", "a:2224")}


@pytest.mark.parametrize(
    "line",
    [
        "a b",
        "a slots=0",
        "a slots=x",
        "a slots=",
        "a slots",
        "a:0",
        "a:x",
        "a:2 slots=2",
        ":2",
        "a slots=-1",
        "[::1",
        "a,b c",
    ],
)
def test_a_malformed_line_of_a_hostfile_is_refused_with_its_number(hostfile, line):
    assert "hosts:2 is" in refusal(hostfile(f"a\n{line}\n"), {"PMI_RANK": "0"})


@pytest.mark.parametrize("given", [{"port": 1, "hostfile": "/no/such/file"}, {"port": 1, "hostfile": "/"}])
def test_a_hostfile_that_cannot_be_read_is_refused(given):
    assert "cannot be read" in refusal(given, {"PMI_RANK": "0"})


@pytest.mark.parametrize(
    ("environ", "part"),
    [
        ({}, "OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK"),
        ({"OMPI_COMM_WORLD_RANK": "x"}, "OMPI_COMM_WORLD_RANK is 'x'"),
        ({"OMPI_COMM_WORLD_RANK": "3"}, "out of range"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}, "SIZE is 4, but 3"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "?"}, "SIZE is '?'"),
    ],
)
def test_wrong_variables_are_refused(environ, part):
    assert part in refusal(LISTS, environ)


def test_hosts_must_be_given_once(hostfile):
    assert "no hosts are given" in refusal({"port": 1}, {"PMI_RANK": "0"})
    assert "both given" in refusal({**LISTS, **hostfile("a")}, {"PMI_RANK": "0"})


def test_a_hostfile_that_does_not_fit_the_ranks_is_refused(hostfile):
    assert "1 slots" in refusal(hostfile("a"), {"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert "MPI_LOCALRANKID is 1, but 0" in refusal(hostfile("a\nb"), {"PMI_RANK": "1", "MPI_LOCALRANKID": "1"})
    assert "no worker" in refusal(hostfile("# nothing\na\n"), {"PMI_RANK": "0"})
    assert "out of range" in refusal(hostfile("\n"), {"PMI_RANK": "0"})
