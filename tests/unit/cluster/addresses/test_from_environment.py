"""Flags with the cluster of the environment: the source is named, and a stray variable changes nothing."""

from __future__ import annotations

import json

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.from_environment import origin, parse_flags, unused_ranks
from ps_train.config.job import Task

SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "3",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SLURM_TASKS_PER_NODE": "1(x3)",
    "SLURM_STEP_NUM_TASKS": "3",
}
MPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
TF_CONFIG = {"TF_CONFIG": json.dumps({"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps"}})}


@pytest.mark.parametrize("environ", [SLURM, MPI, {"JOB_COMPLETION_INDEX": "0", "HOSTNAME": "a-0"}])
@pytest.mark.parametrize("arguments", [[], ["--cluster_from=none"]])
def test_without_the_flag_the_variables_of_other_systems_change_nothing(environ, arguments):
    parsed = parse_flags(arguments, environ)
    assert parsed.task == Task("local", None) and not parsed.job.ps_hosts
    assert origin(parsed.job, parsed.task) == ""


def test_the_cluster_of_slurm_and_its_origin():
    parsed = parse_flags(["--cluster_from=slurm", "--port=7000", "--num_ps=1"], SLURM)
    assert parsed.task == Task("worker", 0)
    assert parsed.job.ps_hosts == ("n1:7000",)
    assert origin(parsed.job, parsed.task) == "cluster from Slurm: 1 ps, 2 workers; this process is worker:0"


def test_the_cluster_of_pods_and_its_origin():
    arguments = ["--cluster_from=kubernetes", "--num_ps=1", "--num_workers=1", "--k8s_service=s"]
    parsed = parse_flags(arguments, {"HOSTNAME": "a-1"})
    assert origin(parsed.job, parsed.task) == "cluster from Kubernetes: 1 ps, 1 workers; this process is worker:0"


def test_the_task_of_a_rank_and_its_origin():
    parsed = parse_flags(["--cluster_from=mpi", "--ps_hosts=a:1", "--worker_hosts=b:1"], MPI)
    assert parsed.task == Task("ps", 0)
    assert "cluster from MPI" in origin(parsed.job, parsed.task)


@pytest.mark.parametrize("arguments", [[], ["--cluster_from=tf_config"]])
def test_tf_config_counts_by_itself_and_by_name(arguments):
    parsed = parse_flags(arguments, {**SLURM, **TF_CONFIG})
    assert parsed.task == Task("ps", 0)
    assert origin(parsed.job, parsed.task).startswith("cluster from TF_CONFIG: 1 ps, 1 workers")


def test_tf_config_is_not_read_where_another_source_or_none_is_named():
    assert parse_flags(["--cluster_from=none"], TF_CONFIG).task.job_name == "local"
    assert parse_flags(["--cluster_from=slurm"], {**SLURM, **TF_CONFIG}).job.ps_hosts == ("n1:2222",)


@pytest.mark.parametrize("text", ["", "  "])
def test_a_named_tf_config_that_is_missing_is_refused(text):
    with pytest.raises(ConfigError, match="TF_CONFIG is not set"):
        parse_flags(["--cluster_from=tf_config"], {"TF_CONFIG": text})


@pytest.mark.parametrize("text", ["{}", '{"task": {"type": "ps", "index": 0}}', '{"cluster": {}}'])
def test_a_named_tf_config_without_hosts_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="TF_CONFIG names no hosts"):
        parse_flags(["--cluster_from=tf_config"], {"TF_CONFIG": text})


@pytest.mark.parametrize("source", ["slrum", "", "Slurm"])
def test_an_unknown_source_is_refused(source):
    with pytest.raises(ConfigError, match="one of auto, tf_config, slurm, kubernetes, mpi, none"):
        parse_flags([f"--cluster_from={source}"], {})


@pytest.mark.parametrize("argument", ["--job_name=local", "--job_name=ps", "--task_index=5"])
def test_flags_that_contradict_the_source_are_refused_with_both(argument):
    with pytest.raises(ConfigError, match=r"from the command line\) contradicts .*from Slurm"):
        parse_flags(["--cluster_from=slurm", argument], SLURM)


def test_a_number_of_workers_that_differs_is_refused():
    parsed = parse_flags(["--cluster_from=slurm", "--num_workers=9"], SLURM)
    with pytest.raises(ConfigError, match=r"num_workers=9 .*has 2"):
        origin(parsed.job, parsed.task)


@pytest.mark.parametrize(
    ("environ", "name"), [(SLURM, "slurm"), (MPI, "mpi"), ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "mpi")]
)
def test_a_local_job_among_ranks_is_warned_of(environ, name):
    assert f"--cluster_from={name}" in unused_ranks(parse_flags([], environ).job, environ)
    assert unused_ranks(parse_flags(["--cluster_from=none"], environ).job, environ) == ""


@pytest.mark.parametrize("environ", [{}, {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "4"}])
def test_an_interactive_shell_of_slurm_is_not_warned_of(environ):
    assert unused_ranks(parse_flags([], environ).job, environ) == ""
