"""The doctor's visit: all checks of one host in their order, each finding shown at once.

visit = Visit(parsed, options, report, os.environ)
visit.before_tensorflow()
visit.with_tensorflow()
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ps_train.base.children import start_child
from ps_train.base.console import human_secs
from ps_train.base.errors import PsTrainError
from ps_train.base.remote_files import scheme_of
from ps_train.base.user_code import describe
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.cluster.addresses.ports import is_local
from ps_train.commands.doctor import host, network
from ps_train.commands.doctor.findings import FAIL, Report
from ps_train.commands.doctor.options import Options
from ps_train.commands.launch.child_process import child_environment
from ps_train.commands.launch.preflight import check_local_job, check_task
from ps_train.config.flags import ParsedFlags
from ps_train.config.job import Job, Task

if TYPE_CHECKING:
    from ps_train.commands.doctor.shown_plan import PlannedJob
    from ps_train.commands.doctor.transport import DoctorRecord, DoctorServer, PsMeasurement

_NEIGHBOUR_SECS = 5.0
"""Seconds, at least, that the doctors of other workers may take."""


class Visit:
    """All checks of one host.

    Args:
      parsed: the flags of the job.
      options: the doctor's own flags.
      report: receives the findings.
      environ: the environment as the user gave it.
    """

    def __init__(self, parsed: ParsedFlags, options: Options, report: Report, environ: Mapping[str, str]) -> None:
        self._parsed, self._options, self._report = parsed, options, report
        self._job, self._given = parsed.job, parsed.given
        self._environ = dict(environ)
        self._has_lists = bool(self._job.ps_hosts or self._job.worker_hosts or self._job.chief_hosts)
        self._task = None if parsed.task.job_name == "local" else parsed.task
        self.cluster: Cluster | None = None
        self._own: list[str] = []
        self._here = host.host_facts()
        self._planned: PlannedJob | None = None
        self._unresolved: set[str] = set()
        self._port_is_free = True

    @property
    def is_ps(self) -> bool:
        """True on the host of a ps, which needs neither the model nor its data."""
        return self._task is not None and self._task.job_name == "ps"

    def before_tensorflow(self) -> None:
        """Checks what needs no import of TensorFlow."""
        self._report.ok("versions", ", ".join(f"{name} {text}" for name, text in host.versions().items()))
        self._set_cluster()
        if self._cannot_run():
            return
        if not self._options.plan_only and self._has_lists and self.cluster is not None:
            self._check_lists(self.cluster)
        self._check_host()

    def _set_cluster(self) -> None:
        if self._task is not None and self._task.job_name == "evaluator" and not self._has_lists:
            return
        if self._has_lists:
            self.cluster = Cluster.of(self._job)
            self._own = list(self.cluster.tasks())
            return
        self._own = list(Cluster.of(with_local_hosts(self._job)).tasks())

    def _cannot_run(self) -> bool:
        """Checks the configuration as the job itself does, model file and directories too; True if it is refused."""
        try:
            if self._task is not None:
                check_task(self._job, self._task)
            elif not self._has_lists:
                check_local_job(self._job, has_job_name=False)
            elif "job_name" in self._given:
                check_local_job(self._job, has_job_name=True)
        except PsTrainError as error:
            self._report.fail("job", str(error).rstrip("."))
            return True
        return False

    def _check_lists(self, cluster: Cluster) -> None:
        """Checks names and ports, from this host and on it."""
        tasks = cluster.tasks()
        resolved = network.resolve_all([address.host for address in tasks.values()])
        self._unresolved = {name for name, (_, error) in resolved.items() if error}
        self._report.add(*network.names_findings(tasks, resolved))
        self._own = network.own_tasks(cluster, resolved)
        if self._task is not None and self._task.job_name == "evaluator":
            return
        self._report.add(network.task_finding(cluster, self._own, self._task))
        for name in [str(self._task)] if self._task else self._own:
            finding = network.port_finding(tasks[name], Task.named(name))
            self._port_is_free = self._port_is_free and finding.level != FAIL
            self._report.add(finding)
        if self._task is None:
            self._reach(cluster)

    def _reach(self, cluster: Cluster) -> None:
        """Looks from a host without a task at the ps of other hosts."""
        others = {
            f"ps:{index}": address
            for index, address in enumerate(cluster.ps)
            if str(cluster.ps_tasks[index]) not in self._own and address.host not in self._unresolved
        }
        works = {name: (lambda address=address: network.probe(address)) for name, address in others.items()}
        found = network.in_parallel(works, network.RESOLVE_SECS + network.CONNECT_SECS + network.ANSWER_SECS)
        for name, address in others.items():
            silent = (network.Answer.UNREACHABLE, "no answer in time")
            self._report.add(network.reach_finding(name, address, *found.get(name, silent)))

    def _check_host(self) -> None:
        tasks = self.cluster.tasks() if self.cluster else {}
        own = [str(self._task)] if self._task and str(self._task) not in self._own else self._own
        self._report.add(host.cores_finding(self._here, own))
        self._report.add(host.files_finding(self._here, max(len(tasks), len(own))))
        if not self._options.plan_only:
            hosts = [address.host for address in tasks.values()] or ["127.0.0.1"]
            self._report.add(host.proxy_finding(self._environ, hosts))
            if self._task is None or self._task.job_name != "evaluator":  # which opens no port
                self._report.add(host.public_finding(self._job.allow_public_ports))

    def with_tensorflow(self) -> None:
        """Makes the checks that need TensorFlow: the plan, and the network between the tasks."""
        self._plan()
        is_evaluator = self._task is not None and self._task.job_name == "evaluator"
        if self._options.plan_only or is_evaluator or any(f.subject in host.NO_SERVER for f in self._report.failures):
            return
        if not self._has_lists:
            self._measure_own_transport()
        elif self.is_ps:
            if self._port_is_free:
                self._serve()
        elif self._task is not None:
            self._measure_ps()

    def _plan(self) -> None:
        from ps_train.commands.doctor.shown_plan import plan_job

        job = with_local_hosts(self._job)
        cluster = Cluster.of(job)
        try:
            self._planned = plan_job(job, cluster)
        except Exception as error:
            if self.is_ps:  # the job's ps needs no model
                self._report.warn("model", f"not known on this ps ({describe(error)})", "the chief's doctor plans it")
            else:
                self._report.fail("model", describe(error))
            return
        self._report.note(self._planned.plan.table())
        self._report.add(*self._planned.findings())
        chief = str(cluster.chief)
        own = [str(self._task)] if self._task and str(self._task) not in self._own else self._own
        self._report.add(host.memory_finding(self._here, self._planned.needs([n for n in own if n in cluster.tasks()])))
        if self._task is None or str(self._task) in (chief, "evaluator:0"):
            self._check_disk(self._planned.checkpoint_bytes)

    def _check_disk(self, checkpoint_bytes: int) -> None:
        directory = self._job.model_dir or os.path.abspath("runs")
        directory = tempfile.gettempdir() if scheme_of(directory) else directory  # the place of its spool
        self._report.add(*host.disk_findings(directory, checkpoint_bytes, self._job.keep_checkpoints))

    def _record(self, task: Task, job: Job) -> DoctorRecord:
        from ps_train.commands.doctor.transport import new_record

        return new_record(job, task, host.versions(), self._here.cores)

    def _serve(self) -> None:
        """Serves on the port of a ps until the doctors of all workers have measured, or the time is over."""
        from ps_train.commands.doctor.transport import DoctorServer

        assert self._task is not None and self.cluster is not None
        server = DoctorServer(self._record(self._task, self._job), self.cluster.address(self._task), self._job)
        replicas = [str(replica) for replica in self.cluster.replicas()]
        self._report.note(
            f"doctor: serves for up to {human_secs(self._options.wait(self._job))}, so that the doctors of "
            f"{', '.join(replicas[:4])} can measure"
        )
        self._await_doctors(server, replicas, self._options.wait(self._job))

    def _await_doctors(self, server: DoctorServer, replicas: list[str], wait: float) -> None:
        """Serves until the doctors of some workers have measured, or the time is over."""
        missing = server.await_doctors(replicas, time.monotonic() + wait, self._seen)
        if missing:
            names = ", ".join(missing[:4]) + (", …" if len(missing) > 4 else "")
            text = f"the doctor of {names} did not come within {human_secs(wait)}"
            self._report.warn("workers", text, "run it on the workers' hosts at the same time")

    def _seen(self, record: DoctorRecord) -> None:
        self._report.ok("workers", f"{record.task} on {record.host} has measured the way to this task")

    def _measure_ps(self) -> None:
        """Measures all ps from the host of a worker."""
        from ps_train.commands.doctor.rack_advice import rack_findings
        from ps_train.commands.doctor.transport import DoctorServer, measure_all
        from ps_train.commands.doctor.wire import wire_finding

        assert self._task is not None and self.cluster is not None
        record = self._record(self._task, self._job)
        address = self.cluster.address(self._task)
        server = DoctorServer(record, address, self._job) if self._port_is_free else None
        names = [
            f"ps:{i}"
            for i, address in enumerate(self.cluster.ps)
            if address.host not in self._unresolved and self.cluster.ps_tasks[i] != self._task
        ]
        wait = self._options.wait(self._job)
        deadline = time.monotonic() + wait
        found = measure_all(self._job, self.cluster, record, server, wait, names)
        if server is not None and self.cluster.ps_of(self._task) is not None:
            self._await_doctors(server, [one.record.task for one in found if one.record is not None], wait)
        measure = functools.partial(self._measure_neighbour, record, server, deadline)
        sizes = self._planned.plan.bytes_per_ps() if self._planned is not None else None
        self._report.add(*rack_findings(self._job, self.cluster, self._task, found, sizes, measure))
        self._show(found)
        if self._planned is not None and self._is_chief():
            self._report.add(*wire_finding(self._planned.traffic, found, self._job))

    def _measure_neighbour(
        self, record: DoctorRecord, server: DoctorServer | None, deadline: float, before: str, after: str
    ) -> PsMeasurement | None:
        """Measures the way to one worker, while another one measures the way to this one."""
        from ps_train.commands.doctor.transport import measure_all

        assert self.cluster is not None
        if server is None:
            return None
        wait = max(_NEIGHBOUR_SECS, deadline - time.monotonic())
        (found,) = measure_all(self._job, self.cluster, record, server, wait, [after])
        self._await_doctors(server, [before], wait)
        return found

    def _measure_own_transport(self) -> None:
        """Measures a ps in a child process, on free ports of this machine."""
        from ps_train.commands.doctor.transport import DoctorServer, measure_all
        from ps_train.commands.launch.port_reservation import PortReservation

        ports = PortReservation()
        ps, worker = ports.reserve(), ports.reserve()
        lists = [f"--ps_hosts={ps}", f"--worker_hosts={worker}"]
        command = [sys.executable, "-m", "ps_train", "doctor", *lists, "--job_name=ps", "--task_index=0"]
        environ = {name: value for name, value in self._environ.items() if name != "TF_CONFIG"}
        silent = subprocess.DEVNULL
        with ports.sockets[ps] as held:
            own = child_environment(environ, held.fileno())
            child = start_child(command, own, stdout=silent, stderr=silent, inherited=[held.fileno()])
        job = Job(ps_hosts=(ps,), worker_hosts=(worker,))
        cluster, task = Cluster.of(job), Task("worker", 0)
        ports.sockets[worker].close()
        record = self._record(task, job)
        with child:
            server = DoctorServer(record, cluster.address(task), job)
            self._show(measure_all(job, cluster, record, server, self._options.wait(self._job), ["ps:0"]))

    def _show(self, found: list[PsMeasurement]) -> None:
        from ps_train.commands.doctor.measured import keep_measured, measured_findings, table_of_ways, weights_finding

        for one in found:
            self._report.add(*measured_findings(one, host.versions(), str(self._task or "worker:0")))
        if table := table_of_ways(found, is_local):
            self._report.note(table)
        if self.cluster is not None and len(found) == len(self.cluster.ps):
            self._report.add(*weights_finding(found, self._job))
        if self._is_chief():
            keep_measured(found, self._job.model_dir)

    def _is_chief(self) -> bool:
        return self._task is None or (self.cluster is not None and self._task == self.cluster.chief)
