"""Facts about a machine, from made-up /proc and /sys, and the findings about them."""

from __future__ import annotations

import ipaddress
import os

from ps_train.base.network_interfaces import ALLOW_VARIABLE, InterfaceAddress
from ps_train.commands.doctor import host
from ps_train.commands.doctor.host import HostFacts

GIB = 1 << 30
FACTS = HostFacts(cores=2, machine_cores=8, available_bytes=4 * GIB, limited_by="the machine", open_files=1024)


def write(root, files):
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return str(root)


MEMINFO = {"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"}


def test_the_memory_of_a_machine_without_groups(tmp_path):
    facts = host.host_facts(write(tmp_path, MEMINFO))
    assert facts.available_bytes == 8 * GIB and facts.limited_by == "the machine"
    assert facts.cores == len(os.sched_getaffinity(0))


def test_a_limit_of_version_2_counts_without_the_page_cache(tmp_path):
    folder = "sys/fs/cgroup/pods/mine"
    root = write(
        tmp_path,
        {
            **MEMINFO,
            "proc/self/cgroup": "0::/pods/mine\n",
            f"{folder}/memory.max": f"{2 * GIB}\n",
            f"{folder}/memory.current": f"{GIB}\n",
            f"{folder}/memory.stat": f"anon 5\ninactive_file {GIB // 2}\n",
            f"{folder}/cpu.max": "150000 100000\n",
        },
    )
    facts = host.host_facts(root)
    assert facts.available_bytes == 3 * GIB // 2 and facts.limited_by == "the control group"
    assert host.cpu_quota(root) == 1.5


def test_the_limit_of_a_group_above_counts_too(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/mine\n",
            "sys/fs/cgroup/pods/memory.max": f"{GIB}\n",
            "sys/fs/cgroup/pods/memory.current": "0\n",
            "sys/fs/cgroup/pods/mine/memory.max": "max\n",
            "sys/fs/cgroup/pods/mine/cpu.max": "max 100000\n",
        },
    )
    assert host.memory_left_in_group(root) == GIB and host.cpu_quota(root) == 0


def test_limits_of_version_1(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",  # mounted as the container's root
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB // 4}\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    )
    assert host.memory_left_in_group(root) == 3 * GIB // 4 and host.cpu_quota(root) == 2.0


def test_memory_against_the_plan():
    good = host.memory_finding(FACTS, {"ps:0": GIB, "worker:0": GIB})
    assert good.level == "ok" and "4.0 GiB left in the machine, about 2.0 GiB needed (ps:0 1.0 GiB" in good.text
    assert host.memory_finding(FACTS, {"ps:0": int(3.5 * GIB)}).level == "warn"
    assert host.memory_finding(FACTS, {"ps:0": 5 * GIB}).level == "FAIL"


def test_few_open_files_are_a_failure_and_unlimited_ones_are_not():
    assert host.files_finding(FACTS, 3).level == "ok"
    few = HostFacts(2, 2, GIB, "the machine", open_files=128)
    found = host.files_finding(few, 3)
    assert found.level == "FAIL" and "128 open files" in found.text and "ulimit -n" in found.advice
    assert host.files_finding(HostFacts(2, 2, GIB, "the machine", -1), 3).level == "ok"


def test_more_workers_than_cores_take_turns():
    assert host.cores_finding(FACTS, ["ps:0", "worker:0", "worker:1"]).level == "ok"
    found = host.cores_finding(FACTS, ["worker:0", "worker:1", "worker:2"])
    assert found.level == "warn" and "of 8" in found.text


PUBLIC = [InterfaceAddress("eth0", ipaddress.ip_address("11.0.0.1"))]


def test_a_public_address_is_a_failure_because_no_task_starts(monkeypatch):
    monkeypatch.delenv(ALLOW_VARIABLE, raising=False)
    found = host.public_finding(False, lambda: PUBLIC)
    assert found.level == "FAIL" and "11.0.0.1 (eth0)" in found.text and "no task starts" in found.text
    assert "firewall" in found.advice and "--allow_public_ports" in found.advice


def test_an_allowed_public_address_is_a_warning(monkeypatch):
    monkeypatch.delenv(ALLOW_VARIABLE, raising=False)
    assert host.public_finding(True, lambda: PUBLIC).level == "warn"
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    assert host.public_finding(False, lambda: PUBLIC).level == "warn"


def test_no_public_address_is_fine():
    assert host.public_finding(False, list).level == "ok"


def test_addresses_that_cannot_be_read_count_as_public(monkeypatch):
    monkeypatch.delenv(ALLOW_VARIABLE, raising=False)

    def denied():
        raise OSError(1, "Operation not permitted")

    found = host.public_finding(False, denied)
    assert found.level == "FAIL" and "Operation not permitted" in found.text


HOSTS = ["host-a", "host-b"]


def test_a_proxy_without_exceptions_is_a_warning_that_says_what_to_set():
    found = host.proxy_finding({"http_proxy": "http://p:3128", "no_proxy": "localhost"}, HOSTS)
    assert found.level == "warn" and "http_proxy=http://p:3128" in found.text and "host-a, host-b" in found.text
    assert found.advice == "set no_proxy=localhost,host-a,host-b"


def test_a_proxy_with_exceptions_for_all_hosts_is_not_in_the_way():
    assert host.proxy_finding({"https_proxy": "http://p:1", "no_proxy": "host-a,host-b"}, HOSTS).level == "ok"
    assert host.proxy_finding({"https_proxy": "http://p:1", "no_grpc_proxy": "x", "no_proxy": "host-a,host-b"}, HOSTS)
    assert host.proxy_finding({}, HOSTS).level == "ok"


def test_gRPC_heeds_only_the_first_list_of_exceptions():
    environ = {"grpc_proxy": "http://p:1", "no_grpc_proxy": "x", "no_proxy": "host-a,host-b"}
    assert host.proxy_finding(environ, HOSTS).level == "warn"


def test_a_disk_with_room_is_measured_and_nothing_is_left(tmp_path):
    found = host.disk_findings(str(tmp_path / "not" / "yet"), checkpoint_bytes=1 << 20, kept=5)
    assert [one.subject for one in found] == ["disk", "writing"] and found[0].level == "ok"
    assert "6.0 MiB needed for 6 checkpoints" in found[0].text and "/s; a checkpoint of 1.0 MiB" in found[1].text
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_larger_than_the_disk_is_a_failure(tmp_path):
    found = host.disk_findings(str(tmp_path), checkpoint_bytes=1 << 50, kept=1)
    assert found[0].level == "FAIL" and found[1].level == "warn"


def test_a_directory_that_cannot_be_written_is_a_failure():
    found = host.disk_findings("/proc/self", checkpoint_bytes=1, kept=1)
    assert len(found) == 1 and found[0].level == "FAIL" and "cannot be written to" in found[0].text


def test_versions_are_those_of_the_installed_packages():
    import ps_train

    found = host.versions()
    assert found["ps_train"] == ps_train.__version__ and found["TensorFlow"][0].isdigit() and "Python" in found


def test_the_memory_of_this_process_is_known():
    assert 1 << 20 < host.own_memory_bytes() < 1 << 40
