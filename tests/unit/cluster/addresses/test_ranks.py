"""Tasks of ranks: the first are ps."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.ranks import check_agreement, cluster_of_ranks, number_in, refuse_host_lists

ADDRESSES = ["a:1", "b:1", "b:2", "c:1"]


@pytest.mark.parametrize(
    ("num_ps", "rank", "task"),
    [
        (None, 0, ("ps", 0)),
        (None, 1, ("worker", 0)),
        (1, 3, ("worker", 2)),
        (2, 1, ("ps", 1)),
        (2, 2, ("worker", 0)),
        (3, 3, ("worker", 0)),
    ],
)
def test_the_first_ranks_are_ps_and_the_others_workers(num_ps, rank, task):
    found = cluster_of_ranks(ADDRESSES, rank, {"num_ps": num_ps}, "Slurm")
    assert found.task == {"job_name": task[0], "task_index": task[1]}
    assert [*found.job["ps_hosts"], *found.job["worker_hosts"]] == ADDRESSES
    assert len(found.job["ps_hosts"]) == (num_ps or 1)


@pytest.mark.parametrize(
    ("num_ps", "rank", "part"), [(1, 4, "0 to 3"), (4, 0, "no worker"), (9, 0, "no worker"), (1, 99, "rank 99")]
)
def test_numbers_that_do_not_fit_are_refused(num_ps, rank, part):
    with pytest.raises(ConfigError, match=part):
        cluster_of_ranks(ADDRESSES, rank, {"num_ps": num_ps}, "Slurm")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣", "1 ", "9" * 20])
def test_what_is_no_number_is_refused_with_the_name_of_the_variable(text):
    with pytest.raises(ConfigError, match=r"variable RANK is .*whole number"):
        number_in({"RANK": text}, "RANK")
    with pytest.raises(ConfigError, match="RANK is not set"):
        number_in({}, "RANK")


def test_a_variable_that_disagrees_is_refused_and_a_missing_one_is_not():
    check_agreement({}, "LOCAL", 1, "why")
    check_agreement({"LOCAL": "1"}, "LOCAL", 1, "why")
    with pytest.raises(ConfigError, match="LOCAL is 2, but 1 was expected: why"):
        check_agreement({"LOCAL": "2"}, "LOCAL", 1, "why")


@pytest.mark.parametrize("name", ["ps_hosts", "worker_hosts", "chief_hosts", "cluster_file"])
def test_host_lists_beside_the_cluster_of_the_environment_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} and the cluster from Slurm"):
        refuse_host_lists({name: ("a:1",)}, "Slurm")


@pytest.mark.parametrize("given", [{"ps_on_workers": True}, {"num_ps": 0}])
def test_all_ranks_are_workers_where_they_hold_the_variables(given):
    found = cluster_of_ranks(ADDRESSES, 0, given, "Slurm")
    assert found.job == {"ps_hosts": (), "worker_hosts": tuple(ADDRESSES)} and found.task == {
        "job_name": "worker",
        "task_index": 0,
    }
