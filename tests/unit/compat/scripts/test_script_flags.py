"""Each task's flags and TF_CONFIG."""

from __future__ import annotations

import json

import pytest

from ps_train.base.errors import ConfigError
from ps_train.compat.scripts.script_flags import defined_flags, script_texts, task_flags, tf_config

CLUSTER = {"ps": ["a:1"], "worker": ["b:1", "c:1"]}
ABSL = 'tf.app.flags.DEFINE_string("job_name", "", "")\nflags.DEFINE_integer(\'task_index\', 0, "")\n'
ARGPARSE = 'parser.add_argument("--ps_hosts")\nparser.add_argument("-w", "--worker_hosts")\n'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ABSL, {"job_name", "task_index"}),
        (ARGPARSE, {"ps_hosts", "worker_hosts"}),
        ("job_name = 1\nprint('job_names', \"my_task_index\")\n", set()),
    ],
)
def test_flags_are_found_in_the_text(text, names):
    assert defined_flags([text]).keys() == names


INCEPTION = """
tf.app.flags.DEFINE_string('job_name', '', '')
tf.app.flags.DEFINE_integer('task_id', 0, 'Task ID of the worker/replica running the training.')
"""
OTHERS = """
parser.add_argument("--job", default="worker")
parser.add_argument('-t', '--task', type=int)
parser.add_argument("--servers")
parser.add_argument("--trainers")
parser.add_argument("--chief_at")
parser.add_argument("--data")
args = parser.parse_args()
servers = args.servers.split(",")
cluster = tf.train.ClusterSpec({"ps": servers, "worker": args.trainers.split(","), "chief": [args.chief_at]})
number = int(args.task)
server = tf.train.Server(cluster, args.job, task_index=number, config=tf.ConfigProto(allow_soft_placement=args.data))
"""
NONE = """
DEFINE_integer("worker_id", 0, "")
DEFINE_integer("base", 0, "")
config = {"task_id": 3}
server = tf.train.Server(cluster, "worker", FLAGS.worker_id + FLAGS.base)
server = tf.train.Server(cluster, job_name=config.job, task_index=config.index)
"""


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (INCEPTION, {"job_name": "job_name", "task_id": "task_index"}),
        (
            OTHERS,
            {
                "job": "job_name",
                "task": "task_index",
                "servers": "ps_hosts",
                "trainers": "worker_hosts",
                "chief_at": "chief_hosts",
            },
        ),
        (NONE, {}),
    ],
)
def test_flags_of_other_names_are_known_by_their_use(text, flags):
    assert defined_flags([text]) == flags


def test_flags_of_other_names_get_the_task_and_the_cluster():
    flags = task_flags(
        defined_flags([OTHERS]), ["--job=worker"], {"ps": ["a:1"], "worker": ["b:1", "c:1"]}, "worker", 1
    )
    assert sorted(flags) == ["--servers=a:1", "--task=1", "--trainers=b:1,c:1"]


def test_a_task_gets_what_the_script_defines_and_the_user_does_not_set():
    defined = defined_flags([ABSL, ARGPARSE])
    assert task_flags(defined, ["--steps=3"], CLUSTER, "worker", 1) == [
        "--job_name=worker",
        "--task_index=1",
        "--ps_hosts=a:1",
        "--worker_hosts=b:1,c:1",
    ]
    two = {"job_name": "job_name", "ps_hosts": "ps_hosts"}
    assert task_flags(two, ["--ps_hosts", "x:1"], CLUSTER, "ps", 0) == ["--job_name=ps"]


def test_tf_config_names_the_cluster_and_the_task():
    assert json.loads(tf_config(CLUSTER, "evaluator", 0)) == {
        "cluster": CLUSTER,
        "task": {"type": "evaluator", "index": 0},
    }


def test_modules_beside_the_script_are_read(tmp_path):
    (tmp_path / "main.py").write_text("import numpy\nfrom options import FLAGS\n")
    (tmp_path / "options.py").write_text("import main\n" + ABSL)
    texts = script_texts(str(tmp_path / "main.py"))
    assert len(texts) == 2 and defined_flags(texts).keys() == {"job_name", "task_index"}


def test_a_script_of_another_python_is_searched_all_the_same(tmp_path):
    (tmp_path / "old.py").write_text("print 'job_name'\n")
    assert defined_flags(script_texts(str(tmp_path / "old.py"))).keys() == {"job_name"}


def test_a_missing_script_is_named():
    with pytest.raises(ConfigError, match=r"the script /nothing\.py cannot be read \(No such file"):
        script_texts("/nothing.py")


def test_the_modules_of_a_package_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__main__.py").write_text("raise SystemExit('it is not run')\n")
    (tmp_path / "trainer" / "task.py").write_text("from trainer import options\nfrom . import model\nimport beside\n")
    (tmp_path / "trainer" / "options.py").write_text(ABSL)
    (tmp_path / "trainer" / "model.py").write_text(ARGPARSE)
    (tmp_path / "beside.py").write_text("")
    texts = script_texts("trainer.task", is_module=True)
    assert len(texts) == 4 and defined_flags(texts).keys() == {"job_name", "task_index", "ps_hosts", "worker_hosts"}
    assert script_texts("trainer", is_module=True) == ["raise SystemExit('it is not run')\n"]
