"""Pods of Kubernetes manifests as real processes: a network, mount, UTS and PID namespace for each, and one node.

A pod has its own address, host name and volumes, process id 1, a read-only root, and the DNS names of its service in
/etc/hosts.  Needs root and iproute2.
"""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import uuid
from typing import Any

import pytest

from tests.support.machine.fork_server import MARK, ROOT
from tests.support.machine.processes import Process, Processes

NETWORK = "10.91.0"
_PROBES = r"""
import json, socket, sys, time, urllib.request
left, deadline = json.loads(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while left and time.monotonic() < deadline:
    for name, (host, port, path) in list(left.items()):
        try:
            if path:
                assert urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=5).status == 200
            else:
                socket.create_connection((host, port), timeout=5).close()
        except OSError:
            continue
        del left[name]
        print("passed", name, flush=True)
    time.sleep(0.1)
print("left", sorted(left), flush=True)
"""


def skip_without_namespaces() -> None:
    """Skips the test where pods cannot be imitated."""
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("ip", "unshare", "mount")):
        pytest.skip("needs root, iproute2, util-linux and mount")
    name = f"pst-{uuid.uuid4().hex[:8]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no network namespace can be made: {made.stderr.strip()}")
    subprocess.run(["ip", "netns", "delete", name], check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Node:
    """A node with pods; `close` removes its namespaces.

    Args:
      processes: starts the pods' processes.
      names: host names of the pods that the service `service` has in DNS.
    """

    def __init__(self, processes: Processes, names: list[str], service: str) -> None:
        self._processes, self._names = processes, names
        self._base = f"pst-{uuid.uuid4().hex[:8]}"
        self._namespaces: list[str] = []
        self.addresses = {name: f"{NETWORK}.{10 + index}" for index, name in enumerate(names)}
        self._hosts = processes.directory / "hosts"
        lines = [f"{address} {name}.{service}" for name, address in self.addresses.items()]
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self._node = self._add_namespace("node")
        _ip("-n", self._node, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._node, "address", "add", f"{NETWORK}.1/24", "dev", "br0")
        _ip("-n", self._node, "link", "set", "br0", "up")

    def _add_namespace(self, name: str) -> str:
        name = f"{self._base}-{name}"
        _ip("netns", "add", name)
        self._namespaces.append(name)
        _ip("-n", name, "link", "set", "lo", "up")
        return name

    def close(self) -> None:
        for name in self._namespaces:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def _network_of(self, name: str) -> str:
        """Returns the network namespace of a pod, which outlives its processes."""
        namespace, index = f"{self._base}-{name}", self._names.index(name)
        if namespace not in self._namespaces:
            self._add_namespace(name)
            _ip(
                "-n", self._node, "link", "add", f"v{index}", "type", "veth", "peer", "name", "eth0", "netns", namespace
            )
            _ip("-n", self._node, "link", "set", f"v{index}", "master", "br0", "up")
            _ip("-n", namespace, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
        return namespace

    def start(self, name: str, pod: dict[str, Any], volumes: dict[str, pathlib.Path], env: dict[str, str]) -> Process:
        """Starts the only container of a pod.

        Args:
          name: host name.
          pod: spec of the pod.
          volumes: directory of each volume that is not an emptyDir.
          env: variables that Kubernetes adds to those of the container.
        """
        (container,) = pod["containers"]
        script = ["set -e", f"hostname {name}", f"mount --bind {shlex.quote(str(self._hosts))} /etc/hosts"]
        checkout = shlex.quote(str(ROOT))
        script += ["mount -t tmpfs tmpfs /srv", "mkdir /srv/.checkout", f"mount --bind {checkout} /srv/.checkout"]
        for mount in sorted(container["volumeMounts"], key=lambda mount: mount["name"] == "tmp"):  # it hides the others
            path, source = shlex.quote(mount["mountPath"]), volumes.get(mount["name"])
            script.append(f"mkdir -p {path}")
            script.append(f"mount --bind {shlex.quote(str(source))} {path}" if source else f"mount -t tmpfs t {path}")
            if mount.get("readOnly"):
                script.append(f"mount -o remount,bind,ro {path}")
        script.append(f"[ -e {checkout}/setup.py ] || mkdir -p {checkout}")  # it may be in /tmp
        script.append(f"[ -e {checkout}/setup.py ] || mount --bind /srv/.checkout {checkout}")
        if container["securityContext"]["readOnlyRootFilesystem"]:
            script.append("mount -o remount,bind,ro /")
        variables = {entry["name"]: entry["value"] for entry in container["env"]} | env | {"HOSTNAME": name}
        variables |= {key: value for key, value in os.environ.items() if key.startswith("OPENBLAS")}
        variables |= {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        words = [f"{key}={value}" for key, value in variables.items()]
        command = shlex.join([sys.executable, "-m", "ps_train", *container["args"]])
        script += ["cd /tmp", f'exec env -i {shlex.join(words)} {MARK}="${MARK}" {command}']
        namespaces = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        enter = ["ip", "netns", "exec", self._network_of(name), "unshare", *namespaces]
        return self._processes.command([*enter, "sh", "-c", "\n".join(script)])

    def probe(self, probes: dict[str, tuple[str, int, str]], within_secs: float) -> Process:
        """Starts a process on the node that repeats probes until each has passed once.

        Args:
          probes: (host name, port, path of HTTP or "") by the name of the probe.
          within_secs: seconds until it gives up.
        """
        places = {key: (self.addresses[name], port, path) for key, (name, port, path) in probes.items()}
        command = [sys.executable, "-c", _PROBES, json.dumps(places), str(within_secs)]
        return self._processes.command(["ip", "netns", "exec", self._node, *command])
