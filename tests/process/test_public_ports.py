"""Tasks on a host with a public address, in a network namespace: refused at once, unless that is allowed."""

from __future__ import annotations

import sys
import time

import pytest

from ps_train.base.network_interfaces import ALLOW_VARIABLE
from tests.support.machine.namespaces import hosts, needs_namespaces
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT

pytestmark = [pytest.mark.timeout(300), needs_namespaces]

LISTS = ("--ps_hosts=127.0.0.1:2222", "--worker_hosts=127.0.0.1:2223", "--model_dir=m")
REFUSED = {ALLOW_VARIABLE: ""}
FIT = """
import ps_train
try:
    ps_train.fit("ps_train.models.digits:Digits", max_steps=5)
except ps_train.ConfigError as error:
    print("ConfigError", error)
"""
SERVER = """
from ps_train import train
train.Server({"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}, "ps", 0)
"""
FAKE_SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
name=$1; shift
[ "$name" = public ] && exec ip netns exec "$PUBLIC_HOST" sh -c "$*"
exec sh -c "$*"
"""


@pytest.fixture(scope="module")
def public_host():
    """A host with a private and a public address."""
    with hosts("10.79.1.1") as (host,):
        host.add_address("11.0.0.1/24")
        yield host


def ps_train(processes, host, *arguments, env=REFUSED):
    return processes.command([*host.prefix, sys.executable, "-m", "ps_train", *arguments], env=env)


def refusal_of(process):
    """Its one line about the public address."""
    assert process.wait(120) == 2, process.output
    (line,) = [line for line in process.lines if "public address" in line]
    assert "11.0.0.1 (eth0)" in line and "firewall" in line and "--allow_public_ports" in line
    return line


def test_no_task_with_a_port_starts_and_none_imports_tensorflow(processes, public_host):
    tasks = {"ps:0": ["--job_name=ps"], "worker:0": ["--job_name=worker"], "the job": []}
    found = {}
    for name, own in tasks.items():
        given = [*LISTS, *own, "--task_index=0"] if own else ["--model_dir=m"]
        command = [*public_host.prefix, sys.executable, "-X", "importtime", "-m", "ps_train", *given]
        found[name] = processes.command(command, env=REFUSED)
    for name, process in found.items():
        assert refusal_of(process).startswith(f"ps_train: error: {name} does not start"), process.output
        assert not any(line.endswith("tensorflow") for line in process.lines)


def test_an_address_of_ipv6_alone_is_refused_too(processes):
    with hosts("2600::1") as (host,):
        process = ps_train(processes, host, *LISTS, "--job_name=ps", "--task_index=0")
        assert process.wait(120) == 2 and "2600::1 (eth0)" in process.output


@pytest.mark.long
def test_the_override_trains_with_a_warning(processes, public_host):
    process = ps_train(processes, public_host, "--allow_public_ports", "--max_steps=20", "--model_dir=m")
    assert process.wait(200) == 0, process.output
    warnings = [line for line in process.lines if "also at the public address 11.0.0.1 (eth0)," in line]
    assert len(warnings) == 3 and all("keep it behind a firewall" in line for line in warnings)


def test_the_evaluator_opens_no_port_and_starts(processes, public_host):
    process = ps_train(processes, public_host, "--job_name=evaluator", "--model_dir=m", "--startup_timeout_secs=1")
    assert process.wait(120) == 1, process.output  # no job comes
    assert "public" not in process.output and "m" in process.output


def test_fit_raises_the_refusal(processes, public_host):
    script = processes.directory / "fitting.py"
    script.write_text(FIT)
    process = processes.command([*public_host.prefix, sys.executable, str(script)], env=REFUSED)
    assert process.wait(120) == 0, process.output
    assert any(line.startswith("ConfigError the job does not start") for line in process.lines), process.output


@pytest.mark.long
def test_servers_of_scripts_are_refused_and_a_variable_or_flag_allows_them(processes, public_host):
    script = processes.directory / "serving.py"
    script.write_text(SERVER)
    cluster = ["--num_ps=1", "--num_workers=1", str(script)]
    assert "the cluster of the script" in refusal_of(ps_train(processes, public_host, "run", *cluster))
    assert "the server" in refusal_of(ps_train(processes, public_host, "run", str(script)))
    allowed = ps_train(processes, public_host, "run", "--allow_public_ports", str(script))
    assert allowed.wait(120) == 0, allowed.output
    assert "open to any client at the public address 11.0.0.1 (eth0)" in allowed.output
    plain = processes.command([*public_host.prefix, sys.executable, str(script)], env={ALLOW_VARIABLE: "1"})
    assert plain.wait(120) == 0, plain.output


@pytest.mark.long
def test_the_doctor_says_that_no_task_starts_and_opens_no_port(processes, public_host):
    process = ps_train(processes, public_host, "doctor")
    assert process.wait(120) == 2, process.output
    (line,) = [line for line in process.lines if line.split()[:2] == ["FAIL", "public"]]
    assert "11.0.0.1 (eth0)" in line and "no task starts" in line
    assert not any("transport" in line or "reach" in line for line in process.lines)


@pytest.mark.long
def test_the_launcher_shows_the_refusal_of_a_host_as_the_cause(processes, public_host):
    script = processes.directory / "ssh"
    script.write_text(FAKE_SSH)
    script.chmod(0o755)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "ps_train", "launch", "--hosts=here=127.0.0.1:ps,public=127.0.0.1:worker"]
    command += [f"--port={port}", f"--ssh={script}", "--env=PS_TRAIN_ALLOW_PUBLIC_PORTS=", "--", "--model_dir=m"]
    began = time.monotonic()
    process = processes.command(command, env={**REFUSED, "PUBLIC_HOST": public_host.name, "PYTHONPATH": str(ROOT)})
    assert process.wait(200) == 2, process.output
    assert "worker:0 does not start: TensorFlow would serve at the public address 11.0.0.1" in process.output
    assert time.monotonic() - began < 150 and not process.descendants()
