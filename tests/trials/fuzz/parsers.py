"""The parsers of input from others, each with a strategy that makes such input and the errors that it may raise."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import json
import logging
import os
import pathlib
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from ps_train.base.errors import ConfigError, DamagedCheckpointError, PsTrainError, RefusedError
from ps_train.base.lifecycle import Recorder
from ps_train.base.untrusted import UntrustedError, sealed
from ps_train.cluster.addresses import kubernetes, mpi, slurm
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.kubernetes_node import _labels
from ps_train.cluster.addresses.own_rack import slurm_rack
from ps_train.cluster.membership import kv_store, records, succession
from ps_train.cluster.membership.directory_lock import _holder_of
from ps_train.cluster.membership.run_status import read_status
from ps_train.cluster.membership.step_ledger import Ledger
from ps_train.cluster.topology import racks_of_file
from ps_train.commands.doctor.transport import DoctorRecord
from ps_train.commands.tuning.executions import _read_records
from ps_train.commands.tuning.space import parse_space
from ps_train.compat.estimator.spec.cluster_config import read_cluster_config
from ps_train.config.error_report import read_errors
from ps_train.config.flags import parse
from ps_train.config.job import Job
from ps_train.engine.run_directory.spool import read_state
from ps_train.observe.profile.step_record import StepRecord, table_of
from ps_train.observe.progress.eval_events import read_eval_metrics
from ps_train.observe.status import prometheus
from ps_train.observe.status.board import Board
from ps_train.observe.status.launcher_events import LauncherEvents
from ps_train.observe.status.measured_network import read_network
from ps_train.observe.status.run_end import read_result_step
from ps_train.saved.deltas.manifest import read_manifest
from ps_train.saved.export.fingerprint import read_fingerprint
from ps_train.saved.warm_start.name_map import read_map
from ps_train.training.tasks.displays import displays
from ps_train.training.tasks.eval_exports import EvalExports
from tests.trials.fuzz.documents import changed_bytes, json_texts, texts

CLUSTER = {"ps": ["a:2222", "b:2222"], "worker": {"0": "c:2222", "3": "d:2222"}, "chief": ["e:2222"]}
TF_CONFIG = {"cluster": CLUSTER, "task": {"type": "worker", "index": 0}, "model_dir": "/m", "environment": "cloud"}
IDENTITY = {"task": "ps:0", "incarnation": "i", "host": "h", "pid": 7, "shared": {"max_steps": 3, "ps_hosts": ["a:1"]}}
TELEMETRY = {
    "uptime": 5.0, "cores": 2, "cpu_secs": 1.5, "rss_bytes": 1000, "memory_limit_bytes": None, "steps": 4,
    "examples": 8.0, "sent_bytes": 3.0, "received_bytes": 3.0, "step_time": {"pull": 0.1},
    "events": [{"age": 3.0, "kind": "saved", "task": "worker:0", "text": "saved"}],
}  # fmt: skip
STATUS = {"task": "worker:0", "process_id": "p", "host": "h", "pid": 3, "state": "training", "heartbeat": 4,
          "machine": "m", "started": "s", "telemetry": TELEMETRY}  # fmt: skip
STEP_RECORD = {
    "task": "worker:0", "clock": [3, 4], "untraced_secs": 0.5, "calls": [[0, 2, 5, 9]], "segments": [["pull", 5, 9]],
    "spans": [["worker:0", "w", "MatMul", 5, 6, "compute", ""]], "left_out": 0,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Parser:
    """A parser: a strategy of inputs, the call, and the errors that it raises for wrong input."""

    inputs: st.SearchStrategy[Any]
    call: Callable[[Any], object]
    errors: tuple[type[Exception], ...] = ()


@contextlib.contextmanager
def directory_with(name: str, content: str | bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        data = content if isinstance(content, bytes) else _bytes_of(content)
        (pathlib.Path(directory) / name).write_bytes(data)
        yield directory


def _bytes_of(text: str) -> bytes:
    with contextlib.suppress(UnicodeEncodeError):
        return text.encode(errors="surrogateescape")
    return text.encode(errors="surrogatepass")


def _tf_config(text: str) -> None:
    Cluster.of(parse([], {"TF_CONFIG": text}).job)


def _cluster_file(text: str) -> None:
    with directory_with("cluster.json", text) as directory:
        Cluster.of(parse([f"--cluster_file={directory}/cluster.json"], {}).job)


def _flagfile(text: str) -> None:
    with directory_with("job.flags", text.replace("HERE", "job.flags")) as directory:
        before = os.getcwd()
        os.chdir(directory)
        try:
            parse(["--flagfile=job.flags"], {})
        finally:
            os.chdir(before)


_GIVEN = {"port": 2222, "num_ps": 1, "num_workers": 2, "k8s_service": "train"}


def _hostfile(text: str) -> None:
    with directory_with("hosts", text) as directory:
        mpi.resolve({**_GIVEN, "hostfile": f"{directory}/hosts"}, {"OMPI_COMM_WORLD_RANK": "0"})


def _rack_file(text: str) -> None:
    with directory_with("racks.json", text) as directory:
        job = dataclasses.replace(_job(), update="sync", rack_file=f"{directory}/racks.json")
        racks_of_file(job, Cluster.of(job))


def _mpi(environ: dict[str, str]) -> None:
    hosts = {"ps_hosts": ("a:1",), "worker_hosts": ("b:1", "c:1")}
    mpi.resolve({**_GIVEN, **hosts}, environ)


def _entry(text: str) -> None:
    kv_store._entry_of(text.encode(errors="replace"))


@functools.cache
def _job() -> Any:
    return parse(["--ps_hosts=a:1,b:1", "--worker_hosts=c:1,d:1"], {}).job


def _page(texts_of: tuple[str, str]) -> None:
    """The records of tasks, as the status page shows them."""
    telemetry, status = texts_of
    cluster = Cluster.of(_job())
    board = Board(_job(), cluster, Recorder(), "", displays())
    items = {records.TELEMETRY: telemetry, records.task_key("worker:0"): status}
    try:
        board.read_records(0, items)
        board.read_records(0, items)
    finally:
        shown = board.status()
        json.dumps(shown).encode()
        prometheus.text(shown, board.displays).encode()


def _step_record(data: bytes | str) -> None:
    if isinstance(data, bytes):
        record = StepRecord.from_text(data.decode(errors="replace"))
    else:
        packed = zlib.compress(data.encode(errors="surrogatepass"))
        record = StepRecord.from_text(base64.b64encode(packed).decode())
    list(record.rows(record.clock))
    table_of([record])


def _lock(text: str) -> None:
    _holder_of(text)


def _in_directory(name: str, read: Callable[[str], object]) -> Callable[[Any], None]:
    def call(content: str | bytes) -> None:
        with directory_with(name, content) as directory:
            read(directory)

    return call


def _sealed(text: str) -> str:
    """The text with the hash that its writer adds, where it is an object."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(text), dict):
            return json.dumps(sealed(found))
    return text


def _in_file(name: str, read: Callable[[str], object]) -> Callable[[Any], None]:
    """As `_in_directory`, for a name with a directory."""

    def call(content: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(_bytes_of(content))
            read(directory)

    return call


def _space(text: str) -> None:
    space = parse_space([text])
    with contextlib.suppress(ConfigError):
        space.points()


def _launcher_events(directory: str) -> None:
    reader = LauncherEvents(Recorder())
    reader._path = f"{directory}/events"
    reader.read()
    reader.read()


@functools.cache
def event_file() -> bytes:
    """An event file with an evaluation."""
    import tensorflow.compat.v1 as v1

    with tempfile.TemporaryDirectory() as directory, v1.Graph().as_default():
        writer = v1.summary.FileWriter(directory)
        for step in (1, 2):
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=0.5)]), step)
        writer.close()
        return next(pathlib.Path(directory).iterdir()).read_bytes()


def _environments(valid: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    changed_values = st.fixed_dictionaries({}, optional={name: texts(value) for name, value in valid.items()})
    return changed_values.map(lambda found: {**valid, **found}) | changed_values


_FLAG_LINES = st.one_of(
    st.builds(
        lambda name, equals, value: f"--{name}{equals}{value}",
        st.sampled_from(sorted(field.name for field in dataclasses.fields(type(_job())) if field.metadata)),
        st.sampled_from(["=", " ", "", "=="]),
        texts("3", "true", "a:1,b:2", "hidden=3", "topk:0.1", "kill=worker:1@3", "0.5", "auc>0.3", "x/y"),
    ),
    texts("--ps_hosts=a:2222,b:2222", "--max_steps=7 # comment", "--flagfile=HERE", '--model_dir="a b"'),
)
SLURM = {"SLURM_PROCID": "1", "SLURM_JOB_NODELIST": "n[01-03,07],m", "SLURM_TASKS_PER_NODE": "2(x3),1,1",
         "SLURM_NTASKS": "8", "SLURM_NODEID": "0", "SLURM_LOCALID": "1"}  # fmt: skip
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}


def _record(kind: type[records.Record], *valid: Any) -> Parser:
    return Parser(json_texts(*valid), kind.from_json, (RefusedError,))


DELTA: dict[str, Any] = {
    "format": 2, "saved_model": False, "files": {"assets/x": "ab"}, "changed_files": ["assets/x"],
    "base": {"hash": "a", "global_step": 1, "graph": "g", "name": "model.ckpt-1"},
    "next": {"hash": "b", "global_step": 2, "graph": "g", "name": "model.ckpt-2"},
    "kinds": {"w": [[3, 2], "float32"], "step": [[], "int64"]}, "vocabularies": {"t": {"added": 1, "removed": 0}},
    "entries": [{"key": "w", "begin": 0, "rows": 2, "whole": True, "number": 0, "hash": "00ff"}],
}  # fmt: skip
HOSTFILES = texts("a slots=2\nb:3\n# c\n", "[fe80::1]:2\n", "a slots=99999\n" * 3)
PACKED = base64.b64encode(zlib.compress(json.dumps(STEP_RECORD).encode()))

PARSERS: dict[str, Parser] = {
    "tf_config": Parser(json_texts(TF_CONFIG, {"cluster": CLUSTER}), _tf_config, (ConfigError,)),
    "cluster_file": Parser(json_texts(CLUSTER, TF_CONFIG), _cluster_file, (ConfigError,)),
    "flagfile": Parser(st.lists(_FLAG_LINES, max_size=6).map("\n".join), _flagfile, (PsTrainError,)),
    "hostfile": Parser(HOSTFILES, _hostfile, (ConfigError,)),
    "slurm": Parser(_environments(SLURM), lambda found: slurm.resolve(_GIVEN, found), (ConfigError,)),
    "kubernetes": Parser(
        _environments({"HOSTNAME": "train-worker-1", "JOB_COMPLETION_INDEX": "1"}),
        lambda found: kubernetes.resolve(_GIVEN, found), (ConfigError,),
    ),
    "rack_file": Parser(json_texts({"a": "x", "b": "y", "c:1": "x", "worker:1": "y"}), _rack_file, (ConfigError,)),
    "slurm_topology": Parser(
        _environments({"SLURM_TOPOLOGY_ADDR": "s[0-1].leaf.n1", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}),
        lambda found: slurm_rack(_job(), found), (ConfigError,),
    ),
    "node": Parser(
        json_texts({"metadata": {"labels": {"zone": "a"}}}),
        lambda text: _labels(_job(), "n", text.encode(errors="replace")), (ConfigError,),
    ),
    "mpi": Parser(_environments(OPEN_MPI), _mpi, (ConfigError,)),
    "estimator_tf_config": Parser(json_texts(TF_CONFIG), read_cluster_config, (ValueError, TypeError)),
    "store_entry": Parser(json_texts(["key", "value"]), _entry, (RefusedError,)),
    "identity": _record(records.Identity, IDENTITY),
    "aggregator": _record(
        succession.Aggregator, {"task": "worker:1", "process_id": "p", "address": "h:1", "term": "t", "is_ready": True}
    ),
    "task_status": _record(records.TaskStatus, STATUS),
    "model_ready": _record(records.ModelReady, {"step": 1, "by": "p", "generation": "g", "run_id": "r"}),
    "stop_request": _record(records.StopRequest, {"by": "worker:0", "signum": 15}),
    "eval_assignment": _record(
        records.EvalAssignment,
        {"token": "t", "shares": {"worker:1": 1}, "count": 2, "least_examples": 9, "field": "f", "values": ["a", "b"]},
    ),
    "outcome": _record(records.Outcome, {"kind": "done", "by": "c", "cause": "x", "signum": 0, "config": False}),
    "doctor_record": _record(
        DoctorRecord, {"task": "ps:0", "host": "h", "pid": 1, "versions": {"tf": "2"}, "cores": 2, "shared": {}}
    ),
    "ledger": _record(Ledger, {"given": 3, "held": {"a": 1}}),
    "status_page": Parser(st.tuples(json_texts(TELEMETRY), json_texts(STATUS)), _page, (RefusedError,)),
    "step_record": Parser(
        changed_bytes(PACKED) | json_texts(STEP_RECORD), _step_record, (UntrustedError,),
    ),
    "lock": Parser(json_texts(STATUS), _lock),
    "status_json": Parser(
        json_texts({"state": "running", "holder": "h", "max_steps": 3, "signum": 0, "cause": "", "config": False}),
        _in_directory("status.json", read_status),
    ),
    "result_json": Parser(json_texts({"global_step": 7, "loss": 0.5}), _in_directory("result.json", read_result_step)),
    "doctor_json": Parser(
        json_texts({"version": 1, "network_bytes_per_sec": {"ps:0": [1.0, 2.0]}}),
        _in_directory("doctor.json", read_network),
    ),
    "error_file": Parser(
        json_texts(["ValueError", "text"]).map(lambda line: line + "\n" + '["KeyError", "x"]\n'),
        _in_directory("errors", lambda directory: read_errors(f"{directory}/errors")),
    ),
    "launcher_events": Parser(
        json_texts({"time": 1.0, "kind": "fault", "task": "ps:0", "text": "killed"}).map(lambda line: line + "\n"),
        _in_directory("events", _launcher_events),
    ),
    "space": Parser(
        texts("learning_rate:1e-4..1e-1:log", "model_arg.x=1..9:int:2", "optimizer:adam,sgd", "space"), _space,
        (ConfigError,),
    ),
    "processes_json": Parser(
        json_texts([{"host": "h", "machine": "m", "pid": 7, "started": "3"}]),
        _in_directory("processes.json", _read_records),
    ),
    "delta_json": Parser(
        json_texts(DELTA) | json_texts({**DELTA, "format": 3}).map(_sealed),
        _in_directory("delta.json", read_manifest), (ConfigError, DamagedCheckpointError),
    ),
    "fingerprint_json": Parser(
        json_texts({"format": 2, "graph": "g", "variables": "v", "global_step": 7}).map(_sealed)
        | json_texts({"format": 1, "graph": "g", "variables": "v", "global_step": 7}),
        _in_file("assets.extra/fingerprint.json", read_fingerprint), (DamagedCheckpointError,),
    ),
    "exports_json": Parser(
        json_texts({"exports": [{"step": 1, "run": "r", "generation": "g", "metrics": {"auc": 0.5}}]}).map(_sealed),
        _in_file("eval/exports.json", lambda directory: EvalExports(Job(), directory, lambda *_: "")),
    ),
    "spool_state": Parser(
        json_texts({"listed": ["model.ckpt-1"], "versions": {"model.ckpt-1": [["x", 1, 2]]}}).map(_sealed),
        _in_directory(".uploaded", read_state), (UntrustedError,),
    ),
    "warm_start_map": Parser(
        texts("a = b\nc/ = d/ # x\n", "w = w old_vocab=a new_vocab=b\n", "\ufeffa ="),
        _in_directory("map", lambda directory: read_map(f"{directory}/map")), (ConfigError,),
    ),
    "event_file": Parser(
        st.deferred(lambda: changed_bytes(event_file())), _in_directory("events.out.tfevents.1", read_eval_metrics)
    ),
}  # fmt: skip

logging.getLogger("ps_train").addHandler(logging.NullHandler())
