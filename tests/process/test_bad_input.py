"""Mistakes that a new user makes: each is one clear line and the right exit code, at once and without a stack trace.

A row is the command line (or the arguments), and words of the one line.  The files of FILES are in the working
directory.
"""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest

from tests.support.machine.processes import Processes

SECS = 60.0
"""Far more than a refusal takes; the machine may be busy."""

FILES: dict[str, str | bytes] = {
    "wrong.flags": "# a job\n--seed=3\n--max_steps=many\n",
    "unknown.flags": "--seed=3\n\n--max_step=7\n",
    "comment.flags": "--max_steps=0  # no steps\n",
    "inner.flags": "--batch_size=-1\n",
    "outer.flags": "--seed=3\n--flagfile=inner.flags\n",
    "circle.flags": "--flagfile=circle.flags\n",
    "missing.flags": "--flagfile=none.flags\n",
    "words.flags": "max_steps=7\n",
    "steps.flags": "--max_steps=\n",
    "optimizer.flags": "--optimizer=adam\n--optimizer_arg=beta1=two\n",
    "argument.flags": "--seed=1\n--model_arg=hiden=3\n",
    "binary.flags": b"\x7fELF\x02\x01\x00\xff",
    "cluster.json": '{"ps": ["localhost:1"], "worker": ["localhost:2"]}',
    "broken.json": '{"ps": [',
    "no_ps.json": '{"worker": ["localhost:2"]}',
    "syntax.py": "import ps_train\n\nclass Net(ps_train.Model)\n    pass\n",
    "imports.py": "import ps_train\nimport library_that_is_not_installed\nclass Net(ps_train.Model): pass\n",
    "names.py": "import ps_train\nclass Net(ps_train.Model):\n    layers = undefined_name\n",
    "nets.py": "import ps_train\nclass Net(ps_train.Model):\n"
    "    def __init__(self, hidden: int = 8, depth: int = 1):\n"
    "        if hidden < 1:\n            raise ValueError('hidden must be positive')\n"
    "class Needs(ps_train.Model):\n    def __init__(self, classes: int): pass\n"
    "class NoModel: pass\n",
    "a_file": "not a directory\n",
}

HOSTS = "--ps_hosts=localhost:2222 --worker_hosts=localhost:2223,localhost:2224"
WORKER = f"--job_name=worker --task_index=1 {HOSTS}"
CHIEF = f"--job_name=worker --task_index=0 {HOSTS}"
PS = "--job_name=ps --task_index=0"
LINE = "(from the command line)"

FLAGS = [
    ("--max_step=7", "unknown flag 'max_step'", "max_steps", LINE),
    ("--steps=7", "unknown flag 'steps'", "--helpfull"),
    ("-max_step 7", "unknown flag 'max_step'", "max_steps"),
    ("train", 'positional argument "train"', "--name=value"),
    ("tunne --trials=3", 'positional argument "tunne"', "did you mean tune? Use"),
    ("Predict --export_dir=x", 'positional argument "Predict"', "did you mean predict? Use"),
    ("--model_dir=", "model_dir='' (from the command line) is empty", "leave it out"),
    ("--max_steps 7 8", 'positional argument "8"'),
    ("--verbose false", 'positional argument "false"'),
    ("--", 'positional argument "--"'),
    ("--max_steps", "max_steps", "value"),
    ("--model_dir --seed=3", "--model_dir", "has no value", "--seed"),
    ("--max_steps=many", f"max_steps=many {LINE} is not valid: use a whole number of at least 1."),
    ("--max_steps=1.5", f"max_steps=1.5 {LINE} is not valid: use a whole number"),
    ("--max_steps=1e3", f"max_steps=1e3 {LINE} is not valid: use a whole number"),
    ("--max_steps=0x10", "a whole number"),
    ("--max_steps=", f"max_steps='' {LINE}", "a whole number"),
    ("'--max_steps= 7'", f"max_steps=' 7' {LINE}", "a whole number"),
    ("--max_steps=99999999999999999999", "at most 9223372036854775807"),
    (f"--max_steps={'9' * 5000}", "max_steps=9999", "a whole number"),
    ("--max_steps=0", "max_steps=0", "a whole number of at least 1"),
    ("--max_steps=-5", "max_steps=-5", "a whole number of at least 1"),
    ("--batch_size=0", "batch_size=0", "at least 1"),
    ("--seed=-1", "seed=-1", "at least 0"),
    ("--epochs=all", "epochs=all", "a whole number of at least 0"),
    ("--learning_rate=fast", "learning_rate=fast", "a finite number above 0"),
    ("--learning_rate=0", "learning_rate=0.0", "above 0"),
    ("--learning_rate=0,1", "learning_rate=0,1", "a finite number above 0"),
    ("--learning_rate=inf", "learning_rate=inf", "finite"),
    ("--learning_rate=nan", "learning_rate=nan", "above 0"),
    ("--save_secs=-1", "save_secs=-1", "at least 0"),
    ("--save_secs=0", "save_steps=0", f"save_secs=0.0 {LINE}", "set one of them"),
    ("--startup_timeout_secs=1e300", "startup_timeout_secs=1e+300", "at most 1000000000"),
    ("--log_secs=1e999", "log_secs=inf", "finite"),
    ("--verbose=maybe", f"verbose=maybe {LINE}", "true or false"),
    ("--optimizer=lion", "optimizer=lion", "sgd, momentum, adam"),
    ("--optimizer=Adam", "optimizer=Adam", "adam"),
    ("--optimizer=adam --optimizer_arg=eps=1", f"optimizer_arg eps {LINE} is not an argument of adam", "epsilon=1e-08"),
    ("--optimizer=adam --optimizer_arg=epsilon=0", f"optimizer_arg epsilon=0 {LINE}", "a number above 0"),
    ("--optimizer=sgd --optimizer_arg=momentum=0.5", f"optimizer_arg momentum {LINE}", "sgd: it takes none"),
    ("--optimizer_arg=epsilon", f"optimizer_arg=epsilon {LINE}", "key=value", "--optimizer_arg=epsilon=1e-6"),
    ("--optimizer_arg=learning_rate=0.1", f"optimizer_arg learning_rate=0.1 {LINE}", "use --learning_rate=0.1"),
    ("--flagfile=optimizer.flags", "optimizer_arg beta1=two (from optimizer.flags:2)", "a number from 0 to below 1"),
    ("--update=asynchronous", "update=asynchronous", "async, bounded, sync"),
    ("--job_name=server", f"job_name=server {LINE}", "ps, worker, chief"),
    ("--job_name=worker --task_index=one", "task_index=one", "a whole number"),
    ("--job_name=ps --task_index=-1", "task_index=-1", "at least 0"),
    ("--steps_per_run=often", "steps_per_run=often", "a whole number of at least 1, or auto"),
    ("--update=sync --max_staleness=3", "max_staleness=3", "update=sync"),
    ("--backup_workers=1", "backup_workers=1", "update=sync"),
    ("--min_workers=3", "min_workers=3", "2 workers", "at most 2"),
    ("--num_workers=0", "num_workers=0", "a whole number of at least 1"),
    ("--num_workers=100000", "num_workers=100000", "one machine"),
    ("--shard_examples=64", "shard_examples=64", "sharding=dynamic"),
    ("--inject_fault=kill", "inject_fault=kill", "kill:TASK@STEP"),
    ("--inject_fault=kill:ps:7@10", "there is no ps:7", "ps:0, worker:0, worker:1"),
    ("--flagfile", "--flagfile", "no value"),
    ("--flagfile=none.flags", "flagfile none.flags", "No such file"),
    ("--flagfile=.", "flagfile .", "Is a directory"),
    ("--flagfile=binary.flags", "flagfile binary.flags", "not UTF-8 text"),
    ("--flagfile=circle.flags", "circle.flags:1", "reads itself"),
    ("--flagfile=missing.flags", "none.flags (from missing.flags:1)", "No such file"),
    ("--flagfile=wrong.flags", "max_steps=many (from wrong.flags:3)", "a whole number"),
    ("--flagfile=unknown.flags", "'max_step'", "(from unknown.flags:3)"),
    ("--flagfile=comment.flags", "max_steps=0 (from comment.flags:1)"),
    ("--flagfile=outer.flags", "batch_size=-1 (from inner.flags:1)"),
    ("--flagfile=words.flags", '"max_steps=7" (from words.flags:1)', "--name=value"),
    ("--flagfile=steps.flags", "max_steps='' (from steps.flags:1)", "a whole number"),
    ("--flagfile=argument.flags", "model_arg hiden (from argument.flags:2)", "hidden"),
    ("--model=digits", "model=digits", "package.module:Class"),
    ("--model=", "package.module:Class"),
    ("--model=nets.py:Net", "model=nets.py:Net", "--model=nets:Net"),
    ("--model=nope:Net", "model=nope:Net", "no module 'nope'", "working directory"),
    ("--model=nets:Nett", "nets has no 'Nett'", "Net, Needs"),
    ("--model=nets:NoModel", "NoModel is not a subclass of ps_train.Model"),
    ("--model=nets:Needs", "needs the argument classes", "--model_arg=classes="),
    ("--model=nets:Net --model_arg=hiden=3", f"model_arg hiden {LINE}", "hidden, depth"),
    ("--model=nets:Net --model_arg=hidden=many", f"model_arg hidden=many {LINE}", "a whole number"),
    ("--model=nets:Net --model_arg=hidden", f"model_arg=hidden {LINE}", "key=value"),
    ("--model=nets:Net --model_arg=hidden=-1", "nets.py, line 5", "hidden must be positive"),
    ("--model=syntax:Net", "syntax.py, line 3", "SyntaxError", "class Net(ps_train.Model)"),
    ("--model=imports:Net", "imports.py, line 2", "No module named 'library_that_is_not_installed'"),
    ("--model=names:Net", "names.py, line 3", "name 'undefined_name' is not defined"),
    (f"{WORKER} --model=syntax:Net", "syntax.py, line 3", "SyntaxError"),
    (f"{WORKER} --model=imports:Net", "imports.py, line 2", "library_that_is_not_installed"),
]

ADDRESSES = [
    (HOSTS, "ps_hosts=localhost:2222", "without job_name", "--job_name=local"),
    ("--worker_hosts=localhost:2223", "ps_hosts is empty"),
    ("--ps_hosts=localhost:2222", "worker_hosts is empty"),
    ("--cluster_file=cluster.json", "(from cluster_file cluster.json)", "without job_name"),
    ("--job_name=local --ps_hosts=192.0.2.1:1 --worker_hosts=localhost:2", "ps:0", "192.0.2.1", "not this machine"),
    ("--job_name=local --ps_hosts=a.invalid:1 --worker_hosts=localhost:2", "a.invalid", "not this machine"),
    (f"--job_name=local {HOSTS} --num_workers=2", "num_workers=2", "host lists"),
    (f"--job_name=worker {HOSTS}", "task_index is not given", "--task_index"),
    (f"--job_name=worker --task_index=2 {HOSTS}", "task_index=2 is out of range", "use 0, 1"),
    (f"--job_name=ps --task_index=1 {HOSTS}", "task_index=1 is out of range", "1 task "),
    (f"--job_name=chief {HOSTS}", "there is no job 'chief'", "ps:0, worker:0, worker:1"),
    ("--job_name=worker --task_index=0", "ps_hosts is empty", "--ps_hosts="),
    (f"{PS} --ps_hosts=localhost --worker_hosts=b:2", '"localhost" in ps_hosts', "host:port"),
    (f"{PS} --ps_hosts=localhost: --worker_hosts=b:2", '"localhost:"', "1 to 65535"),
    (f"{PS} --ps_hosts=:2222 --worker_hosts=b:2", '":2222"', "host:port"),
    (f"{PS} --ps_hosts=a:0 --worker_hosts=b:2", '"0"', "1 to 65535"),
    (f"{PS} --ps_hosts=a:70000 --worker_hosts=b:2", '"70000"', LINE, "1 to 65535"),
    (f"{PS} --ps_hosts=a:port --worker_hosts=b:2", '"port"', "1 to 65535"),
    (f"{PS} --ps_hosts=http://a:2222 --worker_hosts=b:2", "http://a:2222", "host:port"),
    (f"{PS} --ps_hosts=grpc://a:2222 --worker_hosts=b:2", "grpc://a:2222", "host:port"),
    (f"{PS} --ps_hosts=a..b:2222 --worker_hosts=b:2", "a..b:2222", "63 characters"),
    (f"{PS} --ps_hosts=::1:2222 --worker_hosts=b:2", "::1:2222", "[ipv6]:port"),
    (f"{PS} '--ps_hosts=a:1 b:2' --worker_hosts=c:3", "a:1 b:2", "host:port"),
    (f"{PS} '--ps_hosts=a:1;b:2' --worker_hosts=c:3", "a:1;b:2"),
    (f"{PS} --ps_hosts=a:1,,b:1 --worker_hosts=c:3", '""', "host:port"),
    (f"{PS} --ps_hosts=a:1,a:1 --worker_hosts=c:3", "a:1 is the address of both ps:0 and ps:1"),
    (f"{PS} --ps_hosts=a:1 --worker_hosts=a:1", "a:1 is the address of both ps:0 and worker:0"),
    (f"{PS} --ps_hosts=a:1 --worker_hosts=b:1 --chief_hosts=c:1,d:1", "chief_hosts names 2", "use one"),
    (f"{PS} --ps_hosts=a:1 --worker_hosts=0=b:1,c:1", "INDEX=host:port"),
    (f"{PS} --ps_hosts=a:1 --worker_hosts=1=b:1,1=c:1", "worker 1 is listed twice"),
    (f"{PS} --ps_hosts=a:1 --worker_hosts=3=b:1", "--num_workers"),
    ("--cluster_file=none.json", "cluster_file none.json", "No such file"),
    ("--cluster_file=broken.json", "cluster_file broken.json", "not JSON"),
    ("--cluster_file=no_ps.json", "ps_hosts is empty (from cluster_file no_ps.json)", "name at least one ps"),
    ("--cluster_file=binary.flags", "cluster_file binary.flags", "cannot be read"),
    ("--cluster_file=cluster.json --ps_hosts=a:1", "cluster_file=cluster.json", "drop one of them"),
    (f"{PS} --ps_hosts=localhost:80 --worker_hosts=b:1 --inject_fault=kill:ps:0@3", "one command starts"),
]

CLUSTER = {"ps": ["localhost:2222"], "worker": ["localhost:2223", "localhost:2224"]}
TASK = {"type": "worker", "index": 0}

TF_CONFIGS = [
    ({"task": TASK}, "", "TF_CONFIG has a task (worker:0) but no cluster", '"cluster"'),
    ({"cluster": {}, "task": TASK}, "", "TF_CONFIG has a task (worker:0) but no cluster"),
    ({"clutser": CLUSTER, "task": TASK}, "", "TF_CONFIG has a task (worker:0) but no cluster"),
    ({"cluster": CLUSTER}, "", "TF_CONFIG has a cluster but no task", '"task"'),
    ({"cluster": CLUSTER, "task": {}}, "", "TF_CONFIG has a cluster but no task"),
    ({"cluster": CLUSTER, "task": TASK}, "", "model_dir is not given", "worker:0 is the chief", "TF_CONFIG"),
    ({"cluster": CLUSTER, "task": {"type": "wrker", "index": 0}}, "", "'wrker'", "ps, worker, chief"),
    ({"cluster": CLUSTER, "task": {"type": "worker", "index": "one"}}, "", "'one'", "whole number"),
    ({"cluster": CLUSTER, "task": {"type": "worker", "index": 9}}, "", "task_index=9 is out of range"),
    ({"cluster": CLUSTER, "task": {"type": "worker"}}, "--task_index=1", "contradicts", "TF_CONFIG"),
    ({"cluster": {"worker": ["a:1"]}, "task": TASK}, "", "ps_hosts is empty"),
    ({"cluster": {"server": ["a:1"]}, "task": TASK}, "", "unknown job 'server'"),
    ({"cluster": {**CLUSTER, "ps": "localhost:1"}, "task": TASK}, "", "use a list of host:port"),
    ({"cluster": [], "task": TASK}, "", "TF_CONFIG cluster", "use a JSON object"),
    ("{'cluster': 1}", "", "TF_CONFIG is not JSON", "{'cluster': 1}"),
    ({"cluster": CLUSTER, "task": TASK}, "--job_name=ps", "contradicts job_name=worker (from TF_CONFIG)"),
    ({"cluster": CLUSTER, "task": TASK}, "--ps_hosts=other:1", "contradicts ps_hosts="),
    ({"cluster": CLUSTER, "task": TASK, "model_dir": "ram://b/x"}, "", "model_dir=ram://b/x (from TF_CONFIG)"),
    ({"cluster": CLUSTER, "task": TASK, "model_dir": "a_file"}, "", "model_dir=a_file (from TF_CONFIG)"),
]

DIRECTORIES = [
    ("--model_dir=a_file", f"model_dir=a_file {LINE}", "is not a directory"),
    ("--model_dir=a_file/m", "a_file is not a directory"),
    ("--model_dir=/proc/m", f"model_dir=/proc/m {LINE} cannot be written to"),
    (f"--model_dir={'m' * 300}", "File name too long"),
    ("--model_dir=memory://m", f"model_dir=memory://m {LINE} is in the memory of one process", "object store"),
    ("--model_dir=none://bucket/m", "model_dir=none://bucket/m", "no package of fsspec", "mounted bucket"),
    ("--model_dir=gs:/bucket/m", "model_dir=gs:/bucket/m", "is not an address"),
    ("--model_dir=~nobody_here/m", "there is no home directory of ~nobody_here"),
    ("--export_dir=a_file", f"export_dir=a_file {LINE}", "is not a directory"),
    ("--export_dir=/proc/e", f"export_dir=/proc/e {LINE} cannot be written to"),
    ("--export_dir=s3://bucket/e", "export_dir=s3://bucket/e", "s3:// needs", "mounted bucket"),
    ("--export_dir=none://bucket/e", "export_dir=none://bucket/e", "no package of fsspec knows none://"),
    ("--data_dir=no/such/data", f"data_dir=no/such/data {LINE} does not exist"),
    ("--data_dir=hdfs://name/d", "data_dir=hdfs://name/d", "hdfs:// needs"),
    (f"{WORKER} --data_dir=no/such/data", "data_dir=no/such/data", "does not exist"),
    (CHIEF, "model_dir is not given", "worker:0 is the chief", "--model_dir"),
    (f"{CHIEF} --model_dir=a_file", "model_dir=a_file", "is not a directory"),
    (f"{CHIEF} --model_dir=memory://m", "model_dir=memory://m", "memory of one process"),
    (f"{CHIEF} --model_dir=m --export_dir=a_file", "export_dir=a_file", "is not a directory"),
    ("--job_name=evaluator", "model_dir is not given", "an evaluator"),
    ("--job_name=evaluator --model_dir=a_file", "model_dir=a_file", "is not a directory"),
]


@pytest.fixture
def folder(processes: Processes) -> pathlib.Path:
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (processes.directory / name).write_bytes(data)
    return processes.directory


def check_refusal(processes: Processes, arguments: str, words: tuple[str, ...], tf_config: str = "") -> None:
    """Runs the program; its only output is one line with these words, and nothing is written."""
    before = sorted(path.name for path in processes.directory.iterdir() if path.name != "__pycache__")
    process = processes.run(*shlex.split(arguments), env={"TF_CONFIG": tf_config} if tf_config else None)
    code = process.wait(SECS)
    assert "Traceback" not in process.output, process.output
    assert len(process.lines) == 1, process.output
    assert process.lines[0].startswith("ps_train: error: ")
    assert [word for word in words if word not in process.lines[0]] == [], process.output
    assert code == 2
    assert sorted(path.name for path in processes.directory.iterdir() if path.name != "__pycache__") == before


def rows(table: list[tuple[str, ...]]) -> list:
    return [pytest.param(row[0], row[1:], id=row[0][:60] or "none") for row in table]


@pytest.mark.usual(4)
@pytest.mark.parametrize(("arguments", "words"), rows(FLAGS))
def test_a_wrong_flag(processes: Processes, folder: pathlib.Path, arguments: str, words: tuple[str, ...]) -> None:
    check_refusal(processes, arguments, words)


@pytest.mark.usual(2)
@pytest.mark.parametrize(("arguments", "words"), rows(ADDRESSES))
def test_a_wrong_address(processes: Processes, folder: pathlib.Path, arguments: str, words: tuple[str, ...]) -> None:
    check_refusal(processes, arguments, words)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    ("config", "arguments", "words"),
    [pytest.param(row[0], row[1], row[2:], id=f"{number}") for number, row in enumerate(TF_CONFIGS)],
)
def test_a_wrong_tf_config(
    processes: Processes, folder: pathlib.Path, config: object, arguments: str, words: tuple[str, ...]
) -> None:
    check_refusal(processes, arguments, words, config if isinstance(config, str) else json.dumps(config))


@pytest.mark.usual(2)
@pytest.mark.parametrize(("arguments", "words"), rows(DIRECTORIES))
def test_a_wrong_directory(processes: Processes, folder: pathlib.Path, arguments: str, words: tuple[str, ...]) -> None:
    check_refusal(processes, arguments, words)
