"""The commands of deploy/kubernetes as real processes: each pod in namespaces of its own, until the job is done."""

from __future__ import annotations

import json
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.machine import manifests
from tests.support.machine.pods import Node, skip_without_namespaces
from tests.support.machine.proc import command_of
from tests.support.machine.processes import Process, Processes


def probes_of(pods: list[manifests.Pod]) -> dict[str, tuple[str, int, str]]:
    """Each probe of each pod: (pod, port, path of HTTP or "")."""
    found = {}
    for pod in pods:
        (container,) = pod.spec["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for kind in ("livenessProbe", "readinessProbe"):
            if probe := container.get(kind):
                place: dict[str, Any] = probe.get("httpGet") or probe["tcpSocket"]
                found[f"{pod.name} {kind}"] = (pod.name, ports[place["port"]], place.get("path", ""))
    return found


def volumes_of(documents: list[manifests.Document], directory: pathlib.Path, *more: str) -> dict[str, pathlib.Path]:
    """Directories with the flagfiles, the last of which gets more flags, and for the model."""
    volumes = {name: directory / name for name in ("flags", "model")}
    for volume in volumes.values():
        volume.mkdir()
    for name, text in manifests.flagfiles(documents).items():
        (volumes["flags"] / name).write_text(text + "".join(f"{flag}\n" for flag in more if name == "job.flags"))
    return volumes


@pytest.fixture
def node(processes: Processes) -> Iterator[Callable[[list[str]], Node]]:
    nodes = []

    def make(names: list[str]) -> Node:
        nodes.append(Node(processes, names, "train"))
        return nodes[-1]

    yield make
    processes.end()
    for one in nodes:
        one.close()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_job_of_the_manifests_trains_to_its_end(
    processes: Processes, node: Callable[[list[str]], Node], tmp_path: pathlib.Path
) -> None:
    skip_without_namespaces()
    documents = manifests.base()
    volumes = volumes_of(documents, tmp_path)
    pods = manifests.pods(documents)
    cluster = node([pod.name for pod in pods])
    probes = cluster.probe(probes_of(pods), 200)
    running: dict[str, Process] = {}
    for pod in pods:
        running[pod.name] = cluster.start(pod.name, pod.spec, volumes, pod.env)
    codes = {name: process.wait(300) for name, process in running.items()}
    outputs = "\n\n".join(f"{name}: {process.output}" for name, process in running.items())
    assert set(codes.values()) == {0}, f"{codes}\n{outputs}"
    assert probes.wait(210) == 0
    assert probes.lines[-1] == "left []", probes.output
    result = json.loads((volumes["model"] / "result.json").read_text())
    assert result["global_step"] == 2000
    assert result["cluster"]["ps"] == ["train-ps-0.train:2222", "train-ps-1.train:2222"]
    assert "cluster from Kubernetes: 2 ps, 2 workers; this process is worker:1" in running["train-worker-1"].output

    (ps,) = [pod for pod in pods if pod.name == "train-ps-0"]  # the StatefulSet starts it again
    again = cluster.start(ps.name, ps.spec, volumes, ps.env)
    again.wait_for("ps:0 serves on", 90)
    checked = cluster.probe(probes_of([ps]), 60)
    assert checked.wait(90) == 0
    assert checked.lines[-1] == "left []" and again.process.poll() is None


@pytest.mark.long
@pytest.mark.timeout(300)
def test_sigterm_to_one_pod_saves_and_stops_all_with_the_code_that_the_policy_ignores(
    processes: Processes, node: Callable[[list[str]], Node], tmp_path: pathlib.Path
) -> None:
    skip_without_namespaces()
    documents = manifests.base()
    volumes = volumes_of(documents, tmp_path, "--max_steps=100000000")
    pods = [pod for pod in manifests.pods(documents) if "evaluator" not in pod.name]
    cluster = node([pod.name for pod in pods])
    running = {pod.name: cluster.start(pod.name, pod.spec, volumes, pod.env) for pod in pods}
    running["train-worker-0"].wait_for("step ", 150)
    (pid,) = [pid for pid in running["train-ps-1"].descendants() if "ps_train" in command_of(pid)]
    os.kill(pid, signal.SIGTERM)  # as the kubelet does
    codes = {name: process.wait(40) for name, process in running.items()}
    assert set(codes.values()) == {143}, codes
    assert list((volumes["model"]).glob("model.ckpt-*.index"))
