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
    assert defined_flags([text]) == names


def test_a_task_gets_what_the_script_defines_and_the_user_does_not_set():
    defined = defined_flags([ABSL, ARGPARSE])
    assert task_flags(defined, ["--steps=3"], CLUSTER, "worker", 1) == [
        "--job_name=worker",
        "--task_index=1",
        "--ps_hosts=a:1",
        "--worker_hosts=b:1,c:1",
    ]
    assert task_flags({"job_name", "ps_hosts"}, ["--ps_hosts", "x:1"], CLUSTER, "ps", 0) == ["--job_name=ps"]


def test_tf_config_names_the_cluster_and_the_task():
    assert json.loads(tf_config(CLUSTER, "evaluator", 0)) == {
        "cluster": CLUSTER,
        "task": {"type": "evaluator", "index": 0},
    }


def test_modules_beside_the_script_are_read(tmp_path):
    (tmp_path / "main.py").write_text("import numpy\nfrom options import FLAGS\n")
    (tmp_path / "options.py").write_text("import main\n" + ABSL)
    texts = script_texts(str(tmp_path / "main.py"))
    assert len(texts) == 2 and defined_flags(texts) == {"job_name", "task_index"}


def test_a_script_of_another_python_is_searched_all_the_same(tmp_path):
    (tmp_path / "old.py").write_text("print 'job_name'\n")
    assert defined_flags(script_texts(str(tmp_path / "old.py"))) == {"job_name"}


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
    assert len(texts) == 4 and defined_flags(texts) == {"job_name", "task_index", "ps_hosts", "worker_hosts"}
    assert script_texts("trainer", is_module=True) == ["raise SystemExit('it is not run')\n"]
