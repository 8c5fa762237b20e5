"""The facade in processes of its own: it changes `sys.modules` (point 88)."""

from __future__ import annotations

import contextlib

import pytest

from tests.support.machine.processes import make_processes

INSTALL = (
    'import os; os.dup2(os.open("errors", os.O_CREAT | os.O_WRONLY), 2); '
    "from ps_train.compat.tf1 import facade; facade.install()\n"
)


def output_of(code, directory):
    """The lines that a script prints; it runs with the facade, in a copy of a process that has imported TensorFlow."""
    path = directory / "script.py"
    path.write_text(INSTALL + code)
    with contextlib.closing(make_processes(directory)) as made:
        run = next(made).script(path)
        assert run.wait(300) == 0, (directory / "errors").read_text()[-3000:]
    return run.lines


NAMES = """
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.contrib import layers as contrib_layers
from tensorflow.contrib.layers import l2_regularizer, xavier_initializer
import tensorflow.contrib.framework
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.framework import ops
import ps_train.train
assert v1 is tf and tf.compat.v1 is tf and tf.train.Server is ps_train.train.Server
assert tf.train.Server.__module__.startswith("ps_train.") and tf.train.AdamOptimizer.__module__.startswith("tensorflow")
assert contrib_layers is tf.contrib.layers and tf.contrib.layers.l2_regularizer is l2_regularizer
assert tf.examples.tutorials.mnist.input_data is input_data
for name in ("app.run", "flags.DEFINE_string", "logging.set_verbosity", "gfile.Exists", "placeholder", "Session",
             "get_variable", "layers.dense", "layers.max_pooling2d", "summary.FileWriter", "contrib.data.map_and_batch",
             "contrib.lookup.index_table_from_file", "feature_column.input_layer", "metrics.auc", "losses.log_loss",
             "data.Dataset", "nn.rnn_cell", "estimator.__name__", "random_uniform", "log", "to_float", "GraphKeys"):
    value = tf
    for part in name.split("."):
        value = getattr(value, part)
assert tf.zeros([2, 3]).shape[1].value == 3 and ops.get_default_graph() is tf.get_default_graph()
assert tf.estimator.__name__ == "ps_train.estimator"
import tensorflow.estimator
from tensorflow import estimator
assert not tf.executing_eagerly()
kept = []  # what a branch makes is part of the graph, as programs expect that collect it
chosen = tf.cond(tf.constant(True), lambda: kept.append(tf.constant(3)) or kept[0] + 1, lambda: tf.constant(0))
with tf.Session() as session:
    assert session.run([chosen, kept[0] * 2]) == [4, 6]
    print(session.run(tf.layers.flatten(tf.ones([2, 3, 4]))).shape)
assert tf.get_variable("sized", ("2", 3.0)).shape.as_list() == [2, 3] == tf.TensorShape(["2", 3.0]).as_list()
"""

REFUSALS = """
import tensorflow as tf
def refused(kind, code):
    try:
        exec(code)
    except kind as error:
        print(error)
    else:
        raise AssertionError(code)
refused(ImportError, "import tensorflow.contrib.eager")
refused(ImportError, "from tensorflow.contrib import eager")
refused(ImportError, "from tensorflow.contrib.tpu import no_such_name")
refused(ImportError, "import tensorflow.examples.tutorials.word2vec")
refused(AttributeError, "tf.contrib.opt.NoSuchOptimizer")
refused(AttributeError, "tf.contrib.layers.no_such_layer")
refused(AttributeError, "tf.layers.no_such_layer")
refused(AttributeError, "tf.no_such_name")
"""


def test_point_88_classic_names_are_there(tmp_path):
    assert output_of(NAMES, tmp_path) == ["(2, 12)"]


@pytest.mark.long
def test_point_88_absent_names_say_what_to_use_in_one_line(tmp_path):
    lines = output_of(REFUSALS, tmp_path)
    assert len(lines) == 8
    assert all("is not in this TensorFlow" in line and line.endswith(".") for line in lines)
    assert "eager execution" in lines[0] == lines[1] and "TPU" in lines[2] and "tf.no_such_name" in lines[7]


@pytest.mark.long
def test_point_88_app_run_calls_main_of_the_script_with_its_flags(tmp_path):
    code = "import sys\nimport tensorflow as tf\nsys.argv = ['x', '--units=3', 'rest']\n"
    code += "tf.flags.DEFINE_integer('units', 1, 'number of units')\nFLAGS = tf.app.flags.FLAGS\n"
    code += "def main(arguments):\n    print(FLAGS.units, arguments[1:])\ntf.app.run()\n"
    assert output_of(code, tmp_path) == ["3 ['rest']"]


OWN_MODULES = """
import tensorflow as tf
from ps_train import estimator
import ps_train
assert tf.estimator is estimator and estimator.Estimator is tf.estimator.Estimator
from ps_train.data import example_rows
import ps_train.data.pipeline, sys
assert ps_train.data.pipeline.tf is not tf and sys.modules["tensorflow"] is tf
with tf.Session() as session:
    print(session.run(example_rows.count_of({"x": tf.zeros([3, 2])})))
"""


@pytest.mark.long
def test_modules_of_ps_train_get_tensorflow_itself(tmp_path):
    assert output_of(OWN_MODULES, tmp_path) == ["3"]


@pytest.mark.long
def test_flags_of_absl_may_be_defined_by_the_script(tmp_path):
    code = "import sys\nimport tensorflow as tf\nsys.argv = ['x', '--log_dir=here', '--v=3', '--verbosity', 'INFO']\n"
    code += "tf.flags.DEFINE_string('log_dir', '/tmp', 'a')\ntf.flags.DEFINE_integer('v', 1, 'b')\n"
    code += "tf.app.flags.DEFINE_string('verbosity', 'WARN', 'c')\nFLAGS = tf.app.flags.FLAGS\n"
    code += "def main(_):\n    tf.logging.set_verbosity(FLAGS.verbosity)\n"
    code += "    print(FLAGS.log_dir, FLAGS.v, FLAGS.verbosity)\n"
    code += "tf.app.run()\n"
    assert output_of(code, tmp_path) == ["here 3 INFO"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["keras.layers.Dense", "keras.optimizers.Adam"])
def test_keras_is_imported_with_tensorflow_itself(tmp_path, name):
    code = f"import tensorflow as tf\nprint(tf.{name}.__name__)\n"
    assert output_of(code, tmp_path) == [name.rpartition(".")[2]]


PRIVATE = """
import tensorflow as tf
from tensorflow.python.ops.array_ops import stack, unstack
from tensorflow.python.ops.control_flow_ops import cond, while_loop, case
from tensorflow.python.framework.ops import register_tensor_conversion_function, convert_to_tensor, Tensor
from tensorflow.python.ops import array_ops, math_ops
from tensorflow.python.training.optimizer import Optimizer
from tensorflow.python.keras.preprocessing.sequence import pad_sequences
from tensorflow.python.estimator.tpu.tpu_estimator import TPUEstimator
from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator, tpu_optimizer
import tensorflow.estimator.tpu
assert stack is array_ops.stack is tf.stack and unstack is tf.unstack and cond is tf.cond and case is tf.case
assert while_loop is tf.while_loop and Optimizer is tf.train.Optimizer and Tensor is tf.Tensor
assert register_tensor_conversion_function is tf.register_tensor_conversion_function
assert pad_sequences([[1], [2, 3]]).tolist() == [[0, 1], [2, 3]]
assert tf.estimator.tpu.TPUEstimator is tf.contrib.tpu.TPUEstimator is TPUEstimator is tpu_estimator.TPUEstimator
assert not hasattr(array_ops, "no_such_name") and not hasattr(math_ops, "_no_such_name")
from tensorflow.contrib.opt import LazyAdamOptimizer, AdamWOptimizer
from tensorflow.contrib import summary, distribute, cluster_resolver, seq2seq
tf.train.SyncReplicasOptimizer(LazyAdamOptimizer(), 2, replica_id=0, total_num_replicas=2)
"""


def test_names_that_private_modules_have_lost_are_found(tmp_path):
    assert output_of(PRIVATE, tmp_path) == []
