"""The image and the compose file of deploy/docker: by linters, by ps_train's flags, and the image's build steps."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml

from ps_train import __version__
from ps_train.cluster.addresses.from_environment import parse_flags
from tests.support.machine.fork_server import ROOT

DOCKER = ROOT / "deploy" / "docker"
COMPOSE = DOCKER / "compose.yaml"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments, continued lines joined."""
    text = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_the_linter_finds_nothing_in_the_dockerfile(tmp_path: pathlib.Path) -> None:
    hadolint = shutil.which("hadolint", path=str(pathlib.Path(sys.executable).parent))
    if not hadolint:
        pytest.skip("hadolint is not installed")
    made = subprocess.run([hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True)
    assert (made.returncode, made.stdout) == (0, "")
    wrong = tmp_path / "Dockerfile"
    wrong.write_text((DOCKER / "Dockerfile").read_text().replace("USER 10001:10001", "USER root\nRUN cd /tmp && ls"))
    assert subprocess.run([hadolint, wrong], capture_output=True).returncode == 1


def test_the_image_is_slim_and_runs_as_another_user_and_starts_ps_train_without_a_shell() -> None:
    found = instructions()
    (base,) = [words for name, words in found if name == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.[0-9]+-slim-[a-z]+", base)
    final = found[max(index for index, (name, _) in enumerate(found) if name == "FROM") :]
    assert [words for name, words in final if name in ("USER", "ENTRYPOINT")] == ["10001:10001", '["ps_train"]']
    assert not any("pip" in words for _, words in final)
    kubernetes = yaml.safe_load((ROOT / "deploy/kubernetes/base/ps.yaml").read_text())
    assert kubernetes["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 10001


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_each_requirement_has_a_version_and_hashes_and_no_other_source(name: str) -> None:
    text = (DOCKER / name).read_text()
    entries = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith(("#", "--hash"))]
    assert len(entries) == len(lines) > 0
    assert "://" not in text and "--index" not in text and "--extra" not in text


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    for name, words in instructions():
        if name == "COPY" and not words.startswith("--from"):
            for source in words.split()[:-1]:
                assert (ROOT / source).exists() and f"!{source}" in ignored
    assert ignored[0] == "*"


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def test_the_compose_file_follows_the_specification() -> None:
    compose_spec = pytest.importorskip("compose_spec")
    text = yaml.safe_dump(compose())  # with its anchors resolved
    compose_spec.PyCompose.from_yaml(text).validate()
    for wrong in (text.replace("read_only: true", "read_only: maybe"), text.replace("- job\n", "- other\n", 1)):
        assert wrong != text
        with pytest.raises(Exception, match=r"read_only|other"):
            compose_spec.PyCompose.from_yaml(wrong).validate()


def test_the_services_are_the_tasks_of_the_flagfile_in_a_network_without_a_way_out() -> None:
    found = compose()
    assert found["networks"] == {"job": {"internal": True}}
    assert (COMPOSE.parent / found["configs"]["job"]["file"]).exists()
    tasks = {}
    for name, service in found["services"].items():
        assert (
            service["networks"] == ["job"] and "ports" not in service and service["image"].endswith(f":{__version__}")
        )
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001"
        (config,) = service["configs"]
        arguments = [word.replace(config["target"], str(DOCKER / "job.flags")) for word in service["command"]]
        job, task, _ = parse_flags(arguments, {}).__dict__.values()
        tasks[name] = task = task.with_default_index()
        hosts = {"ps": job.ps_hosts, "worker": job.worker_hosts}.get(task.job_name)
        assert hosts is None or hosts[task.task_index] == f"{name}:2222"
        saves = task.job_name == "evaluator" or name == "worker0"
        assert bool(job.model_dir) == saves == ("volumes" in service)
        assert f":{job.health_port}/healthz" in service["healthcheck"]["test"][-1]
    assert sorted(map(str, tasks.values())) == ["evaluator:0", "ps:0", "ps:1", "worker:0", "worker:1"]


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_steps_of_the_build_install_a_program_that_trains(tmp_path: pathlib.Path) -> None:
    """The RUN lines of the first stage, in a directory in the place of /, with the packages from the index."""
    base = next(words for name, words in instructions() if name == "ARG").partition("python:")[2].partition("-")[0]
    if f"{sys.version_info[0]}.{sys.version_info[1]}" != base:
        pytest.skip(f"the requirements are for Python {base}")
    places = {f"/{name}": str(tmp_path / name) for name in ("src", "build", "opt", "wheel")}
    places |= {f"/{name}": str(tmp_path / name) for name in ("requirements.txt", "build-requirements.txt")}
    for directory in ("src", "opt"):
        (tmp_path / directory).mkdir()
    stage = instructions()[1 : [name for name, _ in instructions()].index("FROM", 2)]
    for name, words in stage:
        if name == "COPY":
            *sources, target = words.split()
            for source in sources:
                destination = pathlib.Path(tmp_path / "src", target.lstrip("/"), pathlib.Path(source).name)
                if target == "/":
                    destination = tmp_path / pathlib.Path(source).name
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, tmp_path / "src" / target)
                else:
                    shutil.copy(ROOT / source, destination)
        if name == "RUN":
            script = re.sub(r"(?<![\w./*])/(?:src|build|opt|wheel|requirements\.txt|build-requirements\.txt)\b(?!-)",
                            lambda match: places[match[0]], words)  # fmt: skip
            environment = {
                "PATH": f"{pathlib.Path(sys.executable).resolve().parent}:/usr/bin:/bin",
                "HOME": str(tmp_path),
            }
            made = subprocess.run(
                ["sh", "-euxc", script], cwd=tmp_path / "src", env=environment, capture_output=True, text=True
            )
            if "No matching distribution" in made.stderr or "Connection" in made.stderr:
                pytest.skip(f"no package index: {made.stderr[-300:]}")
            assert made.returncode == 0, made.stderr[-3000:]
    program = tmp_path / "opt" / "ps_train" / "bin" / "ps_train"
    flags = ["--num_workers=1", "--max_steps=100", f"--model_dir={tmp_path / 'model'}"]
    made = subprocess.run([program, *flags], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0 and "trained 100 steps" in made.stdout, made.stdout + made.stderr
    assert "tensorflow 2.21.0" in subprocess.run([program, "--version"], capture_output=True, text=True).stdout
