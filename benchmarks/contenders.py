"""Who is measured: each contender says which processes make up one run of it.

    contender = contender_of("ours-async:steps_per_run=8:TF_CPU_ALLOCATOR_USE_BFC=1")
    programs = contender.programs(Setting("small"))

After the name, `flag=value` is given to the program and `VARIABLE=value` to its environment, so that anything can be
compared with anything without new code here.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from benchmarks.errors import UsageError
from benchmarks.peers import handover
from benchmarks.processes import Program
from benchmarks.workloads import load, workload_class
from benchmarks.workloads.base import Workload
from ps_train.base.process_stats import available_cores
from ps_train.cluster.addresses.environment import task_environment
from ps_train.config.job import Job, Task
from tests.support.machine.link import DEVICE
from tests.support.machine.ports import free_ports

_ENDLESS = 1 << 30
OF_PYTORCH = {"ddp": "ddp", "torchrec": "torchrec_tables"}
"""Contenders of PyTorch, to their programs, which run without TensorFlow."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a task runs: its host, and what to put before its command (`ip netns exec …`)."""

    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Setting:
    """One run.

    Attributes:
      max_steps: global steps after which the test loss is printed and the run ends; 0: it goes on until it is ended.
      places: task ("ps:0") to its place; empty: all on this machine's loopback interface.
      torch_python: the interpreter that has PyTorch; it need not have TensorFlow.
      verbose: our first steps are announced, which they are only then.
    """

    workload: str
    max_steps: int = 0
    num_ps: int = 1
    num_workers: int = 2
    places: Mapping[str, Place] = dataclasses.field(default_factory=dict)
    torch_python: str = sys.executable
    verbose: bool = False
    model_args: tuple[str, ...] = ()

    def place(self, task: str) -> Place:
        return self.places.get(task, Place())


@dataclasses.dataclass(frozen=True)
class Contender:
    """Attributes:
    update: "async", "sync", or "none" where there is only one replica.
    replicas_per_step: how many batches a global step stands for; 0: as many as there are workers.
    speakers: how many of the programs, from the last on, say `step N`; their rates add up.
    """

    name: str
    update: str
    make: Callable[[Setting, Sequence[str]], list[Program]]
    replicas_per_step: int = 1
    speakers: int = 1
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Its name without options."""
        return self.name.partition(":")[0]

    def programs(self, setting: Setting) -> list[Program]:
        """In the order of their start.  The last is the one that says how far training is."""
        made = self.make(setting, self.flags)
        environment = dict(self.environment)
        return [dataclasses.replace(one, environment={**one.environment, **environment}) for one in made]

    def batches_per_step(self, num_workers: int) -> int:
        return self.replicas_per_step or num_workers


def _hosts(setting: Setting, *tasks: str) -> str:
    ports = free_ports(len(tasks))
    return ",".join(f"{setting.place(task).host}:{port}" for task, port in zip(tasks, ports, strict=True))


def _tasks(job: str, count: int) -> list[str]:
    return [f"{job}:{index}" for index in range(count)]


def _ours(update: str, ps_on_workers: bool = False) -> Callable[[Setting, Sequence[str]], list[Program]]:
    def programs(setting: Setting, flags: Sequence[str]) -> list[Program]:
        workload, num_ps = workload_class(setting.workload), 0 if ps_on_workers else setting.num_ps
        command = [sys.executable, "-m", "ps_train", f"--model={workload.__module__}:{workload.__name__}"]
        command += [f"--update={update}", f"--batch_size={workload.batch_size}", "--model_dir=model"]
        command += [f"--max_steps={setting.max_steps or _ENDLESS}", "--log_secs=1", "--save_secs=3600"]
        command += [f"--model_arg={argument}" for argument in setting.model_args]
        command += [*flags, *(["--verbose"] if setting.verbose else [])]
        if not setting.places:  # what users do on one machine: the launcher starts the others
            return [Program("ours", [*command, f"--num_ps={num_ps}", f"--num_workers={setting.num_workers}"])]
        ps, workers = _tasks("ps", num_ps), _tasks("worker", setting.num_workers)
        command += [f"--ps_hosts={_hosts(setting, *ps)}" if ps else "--ps_on_workers"]
        command += [f"--worker_hosts={_hosts(setting, *workers)}"]
        return [_task(setting, task, command) for task in (*ps, *workers[:0:-1], workers[0])]

    return programs


def _task(setting: Setting, task: str, command: Sequence[str]) -> Program:
    job, _, index = task.partition(":")
    return Program(task, [*setting.place(task).prefix, *command, f"--job_name={job}", f"--task_index={index}"])


def _peer(
    module: str, *own: str, chief: bool = False, num_ps: int | None = None
) -> Callable[[Setting, Sequence[str]], list[Program]]:
    """A program of benchmarks.peers as ps and workers; `chief`: and a coordinator, which speaks for all."""

    def programs(setting: Setting, flags: Sequence[str]) -> list[Program]:
        ps = _tasks("ps", setting.num_ps if num_ps is None else num_ps)
        workers = _tasks("worker", setting.num_workers)
        python = setting.torch_python if module in OF_PYTORCH.values() else sys.executable
        command = [python, "-m", f"benchmarks.peers.{module}", f"--workload={setting.workload}", *own, *flags]
        if module in OF_PYTORCH.values():
            command.append(f"--handover={_handover_of(setting.workload)}")
        command += [f"--max_steps={setting.max_steps or _ENDLESS}", f"--ps_hosts={_hosts(setting, *ps)}"]
        command += [f"--worker_hosts={_hosts(setting, *workers, *(['chief:0'] if chief else []))}"]
        last = ["chief:0"] if chief else []
        programs = [_task(setting, task, command) for task in (*ps, *workers[:0:-1], workers[0], *last)]
        # Gloo would look for the machine's own name, which no namespace knows.
        environment = {"GLOO_SOCKET_IFNAME": DEVICE} if setting.places else {}
        return [dataclasses.replace(program, environment=environment) for program in programs]

    return programs


@functools.cache
def _handover_of(workload: str) -> pathlib.Path:
    """Writes the workload's data and network for programs without TensorFlow, once for all runs."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = pathlib.Path(directory, f"{workload}.npz")
    handover.write(load(workload), str(path))
    return path


def _with_our_threads(
    make: Callable[[Setting, Sequence[str]], list[Program]],
) -> Callable[[Setting, Sequence[str]], list[Program]]:
    """The same programs with the numbers of threads that our tasks get on this machine."""

    def programs(setting: Setting, flags: Sequence[str]) -> list[Program]:
        found = []
        tasks = [*_tasks("ps", setting.num_ps), *_tasks("worker", setting.num_workers)]
        hosts = [f"{setting.place(task).host}:{port}" for port, task in enumerate(tasks, 1)]  # the ports do not matter
        job = Job(ps_hosts=tuple(hosts[: setting.num_ps]), worker_hosts=tuple(hosts[setting.num_ps :]))
        for program in make(setting, flags):
            environment = {**program.environment, **_our_threads(program.name, job)}
            found.append(dataclasses.replace(program, environment=environment))
        return found

    return programs


def _our_threads(task: str, job: Job) -> dict[str, str]:
    kind, _, index = task.partition(":")
    changes = task_environment(Task(kind, int(index)), job, {}, available_cores())
    return {name: value for name, value in changes.items() if value and name.endswith("OP_THREADS")}


def _single(processes: int, threads: int) -> Callable[[Setting, Sequence[str]], list[Program]]:
    def programs(setting: Setting, flags: Sequence[str]) -> list[Program]:
        command = [sys.executable, "-m", "benchmarks.peers.single", f"--workload={setting.workload}", *flags]
        command += [f"--threads={threads}", f"--max_steps={setting.max_steps or _ENDLESS}"]
        return [_task(setting, task, command) for task in _tasks("worker", processes)]

    return programs


def task_programs(module: str, setting: Setting, *flags: str) -> list[Program]:
    """A program of benchmarks.peers that is no contender, as ps and workers; the first worker comes last."""
    return _peer(module)(setting, flags)


_ALL = [
    Contender("ours-async", "async", _ours("async")),
    Contender("ours-sync", "sync", _ours("sync"), replicas_per_step=0),
    Contender("on-workers-async", "async", _ours("async", ps_on_workers=True)),
    Contender("on-workers-sync", "sync", _ours("sync", ps_on_workers=True), replicas_per_step=0),
    Contender("bare", "async", _peer("bare")),
    Contender("classic-async", "async", _peer("classic")),
    Contender("classic-sync", "sync", _peer("classic", "--sync"), replicas_per_step=0),
    Contender("classic-threads", "async", _with_our_threads(_peer("classic"))),
    Contender("pss-1", "async", _peer("pss", "--steps_per_closure=1", chief=True)),
    Contender("pss-100", "async", _peer("pss", "--steps_per_closure=100", chief=True)),
    Contender("single-1x2", "none", _single(1, 2)),
    Contender("single-2x1", "none", _single(2, 1), speakers=2),
    *(Contender(name, "sync", _peer(program, num_ps=0), replicas_per_step=0) for name, program in OF_PYTORCH.items()),
]
ALIASES: dict[str, tuple[str, ...]] = {"ours": ("ours-async", "ours-sync")}
ALIASES |= {"classic": ("classic-async", "classic-sync", "classic-threads")}
ALIASES |= {"pss": ("pss-1", "pss-100"), "single": ("single-1x2", "single-2x1")}
ALIASES |= {"torch": tuple(OF_PYTORCH)}
ALIASES |= {"dtypes": ("ours-async", "ours-async:compute_dtype=bfloat16", "ours-async:compute_dtype=float16")}
_CODECS = (
    "bfloat16:push_codec=bfloat16",
    "bfloat16:push_codec=int8",
    "int8:push_codec=int8",
    "bfloat16:push_codec=top_k:0.01",
)
ALIASES |= {"codecs": ("ours-async", *(f"ours-async:pull_codec={codecs}" for codecs in _CODECS))}
ALIASES |= {"codecs-ahead": tuple(f"{name}:prefetch_pulls=1" for name in ALIASES["codecs"])}
NAMES = tuple(contender.name for contender in _ALL)


def contenders_of(texts: Sequence[str]) -> list[Contender]:
    """Of names, of aliases such as "classic", and of names with options."""
    found = []
    for text in texts:
        found += [contender_of(name) for name in ALIASES.get(text, (text,))]
    return found


def torch_python_for(contenders: Sequence[Contender], torch_python: str) -> str:
    """That interpreter, where one of them needs it; else ""."""
    return torch_python if any(one.kind in OF_PYTORCH for one in contenders) else ""


def reason_to_skip(contender: Contender, workload: type[Workload], machine: Mapping[str, str | int]) -> str:
    """Returns why a contender cannot be measured on this machine; "" where it can.

    Args:
      contender: any.
      workload: on which it is measured.
      machine: the description of the machine, with the versions of libraries.
    """
    if contender.kind not in OF_PYTORCH:
        return ""
    network = workload.network
    if network is None or bool(network.tables) != (contender.kind == "torchrec"):
        return "this workload has no form for it"
    if not machine["pytorch"]:
        return "PyTorch is not installed for --torch_python"
    return "" if contender.kind == "ddp" or machine["torchrec"] else "TorchRec is not installed for --torch_python"


def contender_of(text: str) -> Contender:
    name, *options = re.split(r":(?![0-9])", text)  # a number belongs to the value: push_codec=top_k:0.01
    known = [contender for contender in _ALL if contender.name == name]
    if not known:
        allowed = ", ".join([*NAMES, *ALIASES])
        raise UsageError(f"contenders={text} is not known: use some of {allowed}; options follow as :flag=value.")
    flags, environment = [], {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"contenders={text}: {option!r} is not of the form flag=value or VARIABLE=value.")
        if key.isupper():
            environment[key] = value
        else:
            flags.append(f"--{key}={value}")
    return dataclasses.replace(known[0], name=text, flags=tuple(flags), environment=environment)
