"""The job of a storm: its tasks, where they are, and their flags."""

from __future__ import annotations

import json
import pathlib

from tests.support.machine.ports import free_ports
from tests.trials.storms.storm import BATCH, EPOCHS, JOINERS, SHARD, Storm

FLAGS = (
    "--model=tests.support.models.stormy:Stormy", f"--batch_size={BATCH}", "--shuffle_buffer=0",
    "--save_steps=10", "--log_secs=0.1", "--heartbeat_timeout_secs=5", "--startup_timeout_secs=60",
)  # fmt: skip


class StormJob:
    """The tasks of a storm's job.

    Args:
      directory: for the cluster file, and in it `model` for the model.

    Attributes:
      tasks: the declared ones.
    """

    def __init__(self, storm: Storm, directory: pathlib.Path) -> None:
        self.storm, self.model_dir = storm, directory / "model"
        self._file, self._racks = directory / "cluster.json", directory / "racks.json"
        self.tasks = [*storm.ps_tasks, *[f"worker:{i}" for i in range(storm.num_workers)]]
        self._addresses: dict[str, str] = {}
        for task, port in zip(self.tasks, free_ports(len(self.tasks)), strict=True):
            self._addresses[task] = f"127.0.0.1:{port}"
        self._write()
        if storm.rack_file:
            self._racks.write_text(json.dumps({task: self._rack_of(task) for task in self.tasks}))

    def _rack_of(self, task: str) -> str:
        job_name, _, index = task.partition(":")
        return self.storm.racks[int(index)] if job_name == "worker" else "ab"[int(index)]

    def place(self, task: str, elsewhere: bool) -> None:
        """Gives a new task an address, and a task that moves another one."""
        if elsewhere or task not in self._addresses:
            # A port that is free now may be that of a task which has not started yet.
            found = (f"127.0.0.1:{port}" for port in iter(lambda: free_ports(1)[0], None))
            self._addresses[task] = next(address for address in found if address not in self._addresses.values())
            self._write()

    def flags(self, task: str) -> list[str]:
        storm, (job_name, _, index) = self.storm, task.partition(":")
        # Who is to come back needs time to start where many processes share two cores.
        flags = [*FLAGS, f"--update={storm.update}", f"--recovery_timeout_secs={20 if storm.missing else 60}"]
        flags += [f"--{name}={value}" for name, value in storm.options.items()]
        flags += [f"--outer_optimizer_arg={name}={value}" for name, value in storm.outer_arguments.items()]
        flags += [f"--job_name={job_name}", f"--task_index={index}"]
        flags += ["--ps_on_workers"] if storm.layout == "ps on workers" else []
        if storm.racks:
            flags += [f"--rack_file={self._racks}" if storm.rack_file else f"--rack={self._rack_of(task)}"]
        flags += [f"--max_workers={storm.num_workers + JOINERS}"] if storm.elastic else []
        flags += [f"--model_arg=count={storm.examples}", f"--model_arg=tables={storm.tables}".lower()]
        if storm.dynamic:
            flags += ["--sharding=dynamic", f"--shard_examples={SHARD}", f"--epochs={EPOCHS}", "--max_steps=100000"]
            flags += ["--model_arg=uses=true", f"--model_arg=joined={storm.update == 'sync'}".lower()]
        else:
            flags += [f"--max_steps={storm.steps}"]
        if storm.moves:
            flags += [f"--cluster_file={self._file}", f"--num_workers={storm.num_workers}"]
        else:
            flags += self._host_lists(task)
        return [*flags, *([f"--model_dir={self.model_dir}"] if task == "worker:0" else [])]

    def _host_lists(self, task: str) -> list[str]:
        ps = [self._addresses[name] for name in self.storm.ps_tasks]
        ps_hosts = [f"--ps_hosts={','.join(ps)}"] if ps else []
        workers = [self._addresses[name] for name in self.tasks if name.startswith("worker")]
        if task in self.tasks:
            return [*ps_hosts, f"--worker_hosts={','.join(workers)}"]
        own = f"{task.partition(':')[2]}={self._addresses[task]}"
        return [*ps_hosts, f"--worker_hosts={own}", f"--num_workers={self.storm.num_workers}"]

    def _write(self) -> None:
        if self.storm.moves:
            names = ("ps", "worker") if self.storm.ps_tasks else ("worker",)
            lists = {name: [at for task, at in self._addresses.items() if task.startswith(name)] for name in names}
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(lists))
            new.replace(self._file)
