"""The rack of a task from Slurm's topology: the switch next to the node, and one line where there is none."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.config.job import Job


def parsed(address: str | None, pattern: str = "switch.switch.node", *flags: str) -> Job:
    environ = {} if address is None else {"SLURM_TOPOLOGY_ADDR": address, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern}
    return parse_flags(["--update=sync", "--rack=slurm", *flags], environ).job


@pytest.mark.parametrize(
    ("address", "pattern", "rack"),
    [
        ("sh04.sh04-isw-16.sh04-16n05", "switch.switch.node", "sh04-isw-16"),
        (".ib-core.tors-r1pac16.gpu027", "switch.switch.switch.node", "tors-r1pac16"),
        ("leaf.node1.site.org", "switch.node", "leaf"),
        ("spine..node1", "switch.switch.node", "spine"),
        ("s[0-1].leaf[3,5].n1", "switch.switch.node", "leaf3_leaf5"),
        ("block07.n1", "block.node", "block07"),
    ],
)
def test_the_rack_is_the_switch_next_to_the_node(address, pattern, rack):
    job = parsed(address, pattern)
    assert job.rack == rack and job.sources["rack"] == "SLURM_TOPOLOGY_ADDR"


@pytest.mark.parametrize(
    ("address", "pattern", "text"),
    [
        (None, "", "SLURM_TOPOLOGY_ADDR is not set: start the tasks with srun, or give each worker --rack=NAME"),
        ("pp208", "node", "SLURM_TOPOLOGY_ADDR=pp208 (SLURM_TOPOLOGY_ADDR_PATTERN=node) names no switch"),
        ("localhost.localdomain", "node", "names no switch above the node: Slurm needs a topology plugin"),
        ("a.b", "", "names no switch above the node"),
        ("n1", "switch.switch.node", "names no switch above the node"),
        ("..n1", "switch.switch.node", "names no switch above the node"),
        ("le af.n1", "switch.node", "SLURM_TOPOLOGY_ADDR='le af' is not a list of nodes"),
        ("leaf@1.n1", "switch.node", "the rack leaf@1 (from SLURM_TOPOLOGY_ADDR) is not valid: use letters"),
        ("x" * 64 + ".n1", "switch.node", "is not valid: use letters, digits"),
    ],
)
def test_a_task_whose_rack_is_not_told_is_refused_in_one_line(address, pattern, text):
    with pytest.raises(ConfigError) as caught:
        parsed(address, pattern)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_an_evaluator_has_no_rack_and_a_plain_name_needs_no_platform():
    assert parsed(None, "", "--job_name=evaluator", "--model_dir=/m").rack == ""
    assert parse_flags(["--update=sync", "--rack=a"], {}).job.rack == "a"
