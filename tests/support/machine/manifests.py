"""The manifests of deploy/kubernetes: documents, pods, and the flagfiles in their ConfigMap."""

from __future__ import annotations

import functools
import pathlib
import shutil
import subprocess
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.machine.fork_server import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
Document = dict[str, Any]


def load(path: pathlib.Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def base() -> list[Document]:
    """The documents of the base, as its kustomization lists them."""
    (kustomization,) = load(KUBERNETES / "base" / "kustomization.yaml")
    return [document for name in kustomization["resources"] for document in load(KUBERNETES / "base" / name)]


def build(overlay: str) -> list[Document]:
    """The documents that the real kustomize makes of a folder; skips the test without it."""
    kustomize, kubectl = shutil.which("kustomize"), shutil.which("kubectl")
    if not kustomize and not kubectl:
        pytest.skip("neither kustomize nor kubectl, which has it built in, is installed")
    command = (kustomize, "build") if kustomize else (str(kubectl), "kustomize")
    return [document for document in yaml.safe_load_all(_output(*command, str(KUBERNETES / overlay))) if document]


@functools.cache
def _output(*command: str) -> str:
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    return made.stdout


def find(documents: list[Document], kind: str, name: str) -> Document:
    (found,) = [one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def flagfiles(documents: list[Document]) -> dict[str, str]:
    data: dict[str, str] = find(documents, "ConfigMap", "train-flags")["data"]
    return data


class Pod(NamedTuple):
    """A pod that a controller makes: its host name, its labels, its spec, and the variables that Kubernetes adds."""

    name: str
    labels: dict[str, str]
    spec: Document
    env: dict[str, str]


def pods(documents: list[Document]) -> list[Pod]:
    """The pods of all StatefulSets and Jobs."""
    found = []
    for document in documents:
        name, spec = document["metadata"]["name"], document.get("spec", {})
        if document["kind"] == "StatefulSet":
            names = [(f"{name}-{index}", {}) for index in range(spec["replicas"])]
        elif document["kind"] == "Job" and spec.get("completionMode") == "Indexed":
            assert spec["completions"] == spec["parallelism"]
            names = [(f"{name}-{i}", {"JOB_COMPLETION_INDEX": str(i)}) for i in range(spec["completions"])]
        elif document["kind"] == "Job":
            names = [(f"{name}-x7k2p", {})]
        else:
            continue
        template = spec["template"]
        found += [Pod(pod, template["metadata"]["labels"], template["spec"], env) for pod, env in names]
    return found
