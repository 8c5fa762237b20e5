"""Slurm's variables: compressed lists, and the task of each rank."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.slurm import expand_counts, expand_nodes, resolve

STEP = {
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_JOB_NODELIST": "node[01-03]",
    "SLURM_TASKS_PER_NODE": "1,2,1",
}


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("node", ["node"]),
        ("a,b", ["a", "b"]),
        ("node[01-03,07],other", ["node01", "node02", "node03", "node07", "other"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n[1-2]-ib,m[5]", ["n1-ib", "n2-ib", "m5"]),
        ("n[1-2].site.org", ["n1.site.org", "n2.site.org"]),
    ],
)
def test_a_compressed_list_of_nodes_is_expanded(text, nodes):
    assert expand_nodes(text, "NODES") == nodes


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,", ",a", "n[", "n]", "n[]", "n[1", "n1]", "n[a]", "n[1-]", "n[-1]", "n[2-1]", "n[1--2]", "n[1,]"]
    + [
        "n[" + ",".join(["0-99998"] * 800) + "]",
        "n[[1]]",
        "n[1-2-3]",
        "a b",
        "a/b",
        "a:1",
        "n[0-999999999]",
        "n[1-999][1-999]",
        "a\nb",
    ],
)
def test_a_malformed_list_of_nodes_is_refused(text):
    with pytest.raises(ConfigError, match=r"NODES=.* is not a list of nodes"):
        expand_nodes(text, "NODES")


@pytest.mark.parametrize(("text", "counts"), [("1", [1]), ("2(x3),1", [2, 2, 2, 1]), ("1,2(x2)", [1, 2, 2])])
def test_a_compressed_list_of_counts_is_expanded(text, counts):
    assert expand_counts(text, "COUNTS") == counts


@pytest.mark.parametrize("text", ["", "0", "x", "2(x0)", "2(3)", "2(x3", "2x3", "1,", "-1", "1;2", "1(x999999)"])
def test_a_malformed_list_of_counts_is_refused(text):
    with pytest.raises(ConfigError, match=r"COUNTS=.* is not a list of tasks per node"):
        expand_counts(text, "COUNTS")


def test_more_tasks_than_memory_holds_are_refused():
    with pytest.raises(ConfigError, match="more than 100000 tasks"):
        expand_counts("999999(x99999)", "COUNTS")


@pytest.mark.parametrize(
    ("rank", "task"), [("0", ("ps", 0)), ("1", ("worker", 0)), ("2", ("worker", 1)), ("3", ("worker", 2))]
)
def test_each_rank_has_its_task_and_tasks_of_a_node_have_ports_of_their_own(rank, task):
    found = resolve({"port": 2222, "num_ps": 1}, {**STEP, "SLURM_PROCID": rank})
    assert found.task == {"job_name": task[0], "task_index": task[1]}
    assert found.job["ps_hosts"] == ("node01:2222",)
    assert found.job["worker_hosts"] == ("node02:2222", "node02:2223", "node03:2222")


def test_the_variables_of_the_step_count_before_those_of_the_allocation():
    step = {"SLURM_STEP_NODELIST": "b,c", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NUM_TASKS": "2"}
    found = resolve({"port": 7000}, {**STEP, **step, "SLURM_PROCID": "1", "SLURM_NODEID": "1", "SLURM_LOCALID": "0"})
    assert found.job == {"ps_hosts": ("b:7000",), "worker_hosts": ("c:7000",)}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"SLURM_PROCID": None}, "start the tasks with srun"),
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID is 'x'"),
        ({"SLURM_PROCID": "4"}, "out of range"),
        ({"SLURM_JOB_NODELIST": None}, "SLURM_NODELIST is not set"),
        ({"SLURM_TASKS_PER_NODE": None}, "SLURM_TASKS_PER_NODE is not set"),
        ({"SLURM_NTASKS": None}, "SLURM_NPROCS is not set"),
        ({"SLURM_NTASKS": "5"}, "SLURM_NTASKS is 5, but 4"),
        ({"SLURM_TASKS_PER_NODE": "2(x2)"}, "has 3 nodes, but .* has 2"),
        ({"SLURM_NODEID": "2"}, "--distribution=block"),
        ({"SLURM_LOCALID": "0"}, "--distribution=block"),
    ],
)
def test_missing_and_contradicting_variables_are_refused(changes, part):
    environ = {name: value for name, value in {**STEP, **changes}.items() if value is not None}
    with pytest.raises(ConfigError, match=part) as caught:
        resolve({"port": 2222, "num_ps": 1}, environ)
    assert "\n" not in str(caught.value)
