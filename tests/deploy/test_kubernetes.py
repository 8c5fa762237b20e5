"""The manifests of deploy/kubernetes: valid by Kubernetes' schemas, and in agreement with each other and ps_train."""

from __future__ import annotations

import copy
import itertools
import json
import pathlib
import types
from typing import Any

import pytest
import yaml

from ps_train import __version__
from ps_train.base.errors import EXIT_CONFIG, ConfigError, exit_code_of_signal
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.config.flags import ParsedFlags
from tests.support.machine import manifests
from tests.support.machine.manifests import Document, find, flagfiles

OLDEST, NEWEST = "1.33", "1.37"
"""Releases of Kubernetes: the first with everything that the manifests use, and the newest with a schema here."""

FOLDERS = ("base", "overlays/ps-as-job", "overlays/large")
CONTROLLERS = ("StatefulSet", "Job")


def documents_of(folder: str) -> list[Document]:
    return manifests.base() if folder == "base" else manifests.build(folder)


def matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def without_namespace(document: Document) -> Document:
    kept = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    return {**document, "metadata": kept}


def names_where(pods: list[manifests.Pod], selector: dict[str, str]) -> set[str]:
    return {pod.name.rsplit("-", 1)[0] for pod in pods if matches(selector, pod.labels)}


@pytest.mark.parametrize(
    ("folder", "version"), [("base", OLDEST), *((folder, NEWEST) for folder in FOLDERS)], ids=lambda value: value
)
def test_each_document_is_valid(folder: str, version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    documents = documents_of(folder)
    assert len(documents) == 9
    seen = [] if folder == "base" else [without_namespace(document) for document in documents_of("base")]
    for document in documents:
        if without_namespace(document) not in seen:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_validation_finds_an_unknown_field_and_a_wrong_type() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    job = find(manifests.base(), "Job", "train-worker")
    for change in ({"sucessPolicy": {}}, {"completions": "two"}):
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate({**job, "spec": {**job["spec"], **change}}, NEWEST, strict=True)


def test_kustomize_gives_the_documents_of_the_base_unchanged() -> None:
    def sorted_documents(documents: list[Document]) -> list[Document]:
        return sorted(documents, key=lambda one: (one["kind"], one["metadata"]["name"]))

    assert sorted_documents(manifests.build("base")) == sorted_documents(manifests.base())


@pytest.mark.parametrize(
    ("folder", "num_ps", "num_workers"), [("base", 2, 2), ("overlays/ps-as-job", 2, 2), ("overlays/large", 4, 16)]
)
def test_the_numbers_of_pods_agree_with_the_flags(folder: str, num_ps: int, num_workers: int) -> None:
    documents = documents_of(folder)
    assert flagfiles(documents)["size.flags"].split() == [f"--num_ps={num_ps}", f"--num_workers={num_workers}"]
    names = [pod.name for pod in manifests.pods(documents)]
    expected = [f"train-ps-{i}" for i in range(num_ps)] + [f"train-worker-{i}" for i in range(num_workers)]
    assert sorted(name for name in names if "evaluator" not in name) == sorted(expected)
    assert find(documents, "PodDisruptionBudget", "train-worker")["spec"]["minAvailable"] == num_workers
    if folder == "overlays/ps-as-job":  # pods of a Job allow no maxUnavailable
        assert find(documents, "PodDisruptionBudget", "train-ps")["spec"].get("minAvailable") == num_ps
        assert "maxUnavailable" not in find(documents, "PodDisruptionBudget", "train-ps")["spec"]
        assert not [one for one in documents if one["kind"] == "StatefulSet"]


def parsed(pod: manifests.Pod, files: dict[str, str], directory: pathlib.Path) -> ParsedFlags:
    """The command line of a pod, parsed as in the pod."""
    for name, text in files.items():
        (directory / name).write_text(text)
    (container,) = pod.spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    arguments = [argument.replace(mounts["flags"] + "/", f"{directory}/") for argument in container["args"]]
    return parse_flags(arguments, {"HOSTNAME": pod.name, **pod.env})


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_pod_finds_its_task_and_all_others(folder: str, tmp_path: pathlib.Path) -> None:
    documents = documents_of(folder)
    pods = manifests.pods(documents)
    members = [pod.name for pod in pods if "evaluator" not in pod.name]
    for pod in [pod for pod in pods if pod.name[-2:] in ("-0", "-1", "2p", "15")]:
        found = parsed(pod, flagfiles(documents), tmp_path)
        if pod.name not in members:
            assert (str(found.task.with_default_index()), found.job.model_dir) == ("evaluator:0", "/srv/model")
            continue
        kind, index = pod.name.split("-")[1:]
        assert str(found.task) == f"{kind}:{index}"
        cluster = Cluster.of(found.job)
        addresses = {str(address) for address in (*cluster.ps, *found.job.worker_hosts)}
        assert addresses == {f"{name}.train:2222" for name in members}
        assert found.job.model_dir == ("/srv/model" if kind == "worker" else "")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_name_of_the_cluster_exists_before_the_pod_is_ready(folder: str) -> None:
    documents = documents_of(folder)
    service = find(documents, "Service", "train")["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert names_where(manifests.pods(documents), service["selector"]) == {"train-ps", "train-worker"}
    for document in documents:
        if document["kind"] == "StatefulSet":
            assert document["spec"]["serviceName"] == "train"
        elif document["spec"].get("completionMode") == "Indexed" if document["kind"] == "Job" else False:
            assert document["spec"]["template"]["spec"]["subdomain"] == "train"


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_tasks_of_the_job_are_admitted_and_only_to_the_port_of_tensorflow(folder: str) -> None:
    documents = documents_of(folder)
    policy, pods = find(documents, "NetworkPolicy", "train")["spec"], manifests.pods(documents)
    protected = names_where(pods, policy["podSelector"]["matchLabels"])
    assert protected == {"train-ps", "train-worker", "train-evaluator"}
    assert policy["policyTypes"] == ["Ingress"]
    ((rule),) = policy["ingress"]
    (source,) = rule["from"]
    assert list(source) == ["podSelector"]  # of this namespace
    assert names_where(pods, source["podSelector"]["matchLabels"]) == {"train-ps", "train-worker"}
    assert not matches(source["podSelector"]["matchLabels"], {"app.kubernetes.io/name": "ps-train"})
    assert rule["ports"] == [{"protocol": "TCP", "port": 2222}]


def test_with_racks_each_task_may_ask_for_its_node_and_is_reached_on_the_further_port(tmp_path: pathlib.Path) -> None:
    documents, names = manifests.build("overlays/racks"), set()
    for document in documents:
        if document["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "StatefulSet", "Job"):
            pytest.importorskip("kubernetes_validate").validate(document, NEWEST, strict=True)
    ((rule),) = find(documents, "NetworkPolicy", "train")["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [2222, 2223]
    ((allowed),) = find(documents, "ClusterRole", "train-nodes")["rules"]
    assert allowed == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    ((subject),) = find(documents, "ClusterRoleBinding", "train-nodes")["subjects"]
    namespace = find(documents, "ServiceAccount", "train")["metadata"]["namespace"]
    assert subject == {"kind": "ServiceAccount", "name": "train", "namespace": namespace}
    for pod in [pod for pod in manifests.pods(documents) if pod.name[-2:] == "-0"]:
        names.add(pod.name)
        assert (pod.spec["serviceAccountName"], pod.spec["automountServiceAccountToken"]) == ("train", True)
        ((own),) = [one for one in pod.spec["containers"][0]["env"] if one["name"] == "NODE_NAME"]
        assert own["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
        with pytest.raises(ConfigError, match=r"rack=kubernetes .*, but NODE_NAME is not set"):
            parsed(pod, flagfiles(documents), tmp_path)
    assert names == {"train-ps-0", "train-worker-0"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_selectors_of_controllers_and_budgets_choose_their_pods(folder: str) -> None:
    documents = documents_of(folder)
    pods = manifests.pods(documents)
    for document in documents:
        name, spec = document["metadata"]["name"], document.get("spec", {})
        if document["kind"] in ("PodDisruptionBudget", "StatefulSet"):
            assert names_where(pods, spec["selector"]["matchLabels"]) == {name}
    namespaces = {document["metadata"].get("namespace") for document in documents}
    assert len(namespaces) == 1 and (None in namespaces) == (folder == "base")


@pytest.mark.parametrize("folder", FOLDERS)
def test_failure_policies_follow_the_exit_codes(folder: str) -> None:
    jobs = [document for document in documents_of(folder) if document["kind"] == "Job"]
    assert len(jobs) == (3 if folder == "overlays/ps-as-job" else 2)
    for job in jobs:
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        assert pod["restartPolicy"] == "Never"  # a podFailurePolicy needs it
        rules = spec["podFailurePolicy"]["rules"]
        by_code = {code: rule["action"] for rule in rules for code in rule.get("onExitCodes", {}).get("values", ())}
        stopped = {exit_code_of_signal(15): "Ignore"}
        assert by_code == {EXIT_CONFIG: "FailJob", **(stopped if spec.get("completionMode") else {})}
        names = {rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule}
        assert names == {container["name"] for container in pod["containers"]}
        assert {"type": "DisruptionTarget", "status": "True"} in [
            condition for rule in rules for condition in rule.get("onPodConditions", ())
        ]
        assert spec.get("backoffLimit", spec.get("backoffLimitPerIndex")) == 5
    worker = find(jobs, "Job", "train-worker")["spec"]
    assert worker["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}  # the chief


@pytest.mark.parametrize("folder", FOLDERS)
def test_pods_have_few_rights_and_limited_memory_and_probes_of_their_ports(folder: str, tmp_path: pathlib.Path) -> None:
    documents = documents_of(folder)
    for pod in [pod for pod in manifests.pods(documents) if pod.name[-2:] in ("-0", "2p")]:  # one of each kind
        (container,) = pod.spec["containers"]
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["securityContext"]["runAsNonRoot"] is True
        assert pod.spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["image"].rpartition("/")[2] == f"ps_train:{__version__}"
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {"cpu", "memory"} == set(requests) and limits == {"memory": requests["memory"]}
        job = parsed(pod, flagfiles(documents), tmp_path).job
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        flags = {"health": job.health_port, "grpc": job.port, "status": job.status_port}
        assert ports == {name: flags[name] for name in ports}
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
        assert ("grpc" in ports) == (container.get("readinessProbe", {}).get("tcpSocket") == {"port": "grpc"})
        assert job.status_host == "0.0.0.0"  # the kubelet comes from outside
        assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod.spec["volumes"]}
        claims = [one["persistentVolumeClaim"] for one in pod.spec["volumes"] if "persistentVolumeClaim" in one]
        assert all(find(documents, "PersistentVolumeClaim", claim["claimName"]) for claim in claims)


TFJOB = manifests.KUBERNETES / "tfjob.yaml"


def round_trip(document: Document) -> Any:
    """What remains of a document in the operator's own types."""
    training = pytest.importorskip("kubeflow.training")
    client = training.ApiClient()
    answer = types.SimpleNamespace(data=json.dumps(document))
    return client.sanitize_for_serialization(client.deserialize(answer, "KubeflowOrgV1TFJob"))


def test_the_operators_types_have_each_field_of_the_tfjob() -> None:
    document = yaml.safe_load(TFJOB.read_text())
    assert round_trip(document) == document
    wrong = copy.deepcopy(document)
    wrong["spec"]["tfReplicaSpecs"]["PS"]["restartPolicies"] = "Never"
    assert round_trip(wrong) != wrong


def test_the_templates_of_the_tfjob_are_valid_pods() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for name, replica in yaml.safe_load(TFJOB.read_text())["spec"]["tfReplicaSpecs"].items():
        assert replica["restartPolicy"] == "ExitCode"  # 1-127: the job fails; from 128 on: the pod starts again
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.lower(), **replica["template"]["metadata"]}}
        kubernetes_validate.validate({**pod, "spec": replica["template"]["spec"]}, NEWEST, strict=True)
        (container,) = replica["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"  # where the operator writes TF_CONFIG
        assert {"name": "tfjob-port", "containerPort": 2222} in container["ports"]
        assert container["image"] == f"ps_train:{__version__}"


def tf_config_of_operator(document: Document, kind: str, index: int, namespace: str = "research") -> str:
    """TF_CONFIG as the training operator 1.x writes it: services NAME-TYPE-INDEX.NAMESPACE.svc, no evaluator."""
    name = document["metadata"]["name"]
    cluster = {
        each.lower(): [f"{name}-{each.lower()}-{i}.{namespace}.svc:2222" for i in range(replica["replicas"])]
        for each, replica in document["spec"]["tfReplicaSpecs"].items()
        if each != "Evaluator"
    }
    return json.dumps({"cluster": cluster, "task": {"type": kind.lower(), "index": index}, "environment": "cloud"})


def test_each_pod_of_the_tfjob_is_a_task_by_the_operators_tf_config() -> None:
    document = yaml.safe_load(TFJOB.read_text())
    tasks = set()
    for kind, replica in document["spec"]["tfReplicaSpecs"].items():
        for index in range(replica["replicas"]):
            (container,) = replica["template"]["spec"]["containers"]
            config = tf_config_of_operator(document, kind, index)
            found = parse_flags(container["args"], {"TF_CONFIG": config, "HOSTNAME": f"train-{kind.lower()}-{index}"})
            tasks.add(str(found.task))
            assert found.job.ps_hosts == ("train-ps-0.research.svc:2222", "train-ps-1.research.svc:2222")
            assert found.job.chief_hosts == ("train-chief-0.research.svc:2222",)
            has_model = any("persistentVolumeClaim" in one for one in replica["template"]["spec"]["volumes"])
            assert has_model == (kind in ("Chief", "Evaluator")) == bool(found.job.model_dir)
    assert tasks == {"ps:0", "ps:1", "chief:0", "worker:0", "worker:1", "evaluator:0"}


def test_no_document_is_left_out_of_its_kustomization() -> None:
    for folder in FOLDERS:
        directory = manifests.KUBERNETES / folder
        (kustomization,) = manifests.load(directory / "kustomization.yaml")
        paths = [patch.get("path") for patch in kustomization.get("patches", ())]
        listed = set(itertools.chain(kustomization["resources"], filter(None, paths), ["kustomization.yaml"]))
        assert {path.name for path in directory.iterdir()} <= listed
