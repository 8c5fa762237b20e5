"""Variables of a script in a process of its own, which the facade changes as a whole."""

from __future__ import annotations

import pathlib

from tests.unit.compat.tf1.test_facade import output_of

VALUES = """
import tensorflow as tf
graph = tf.Graph()
with graph.as_default(), tf.Session() as session:
    w, x = tf.Variable(3.0, name="w"), tf.placeholder(tf.float32, name="x")
    r = tf.get_variable("r", initializer=7.0, use_resource=True)
    assert [isinstance(each, tf.Variable) for each in (w, r, x, 3.0)] == [True, True, False, False]
    assert issubclass(type(r), tf.Variable) and not issubclass(tf.Tensor, tf.Variable)
    assert all(isinstance(each, tf.Variable) for each in tf.global_variables())
    y = tf.multiply(w, x, name="y")
    step = tf.train.get_or_create_global_step()
    named = graph.get_tensor_by_name("w:0")
    slope, assigned = tf.gradients(y, [named])[0], tf.assign(named, 4.0)
    counted = [tf.assign_add(step, 1).op, step.assign_add(1).op, step.assign_sub(1).op]
    assert all(op.get_attr("use_locking") for op in counted)
    session.run(tf.global_variables_initializer())
    print(session.run(["w:0", "r:0", "global_step:0"]), session.run(named), graph.as_graph_element("w:0").eval())
    print(session.run("y:0", {"x:0": 2.0, "w:0": 5.0}), session.run(y, {x: 2.0, w: 6.0}), session.run(slope, {x: 2.0}))
    print(session.run(assigned), session.run("w:0"))
    frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y", "r"])
    tf.train.Saver().save(session, "model")
for definition, run in ((frozen, []), (graph.as_graph_def(), ["import/w/Assign", "import/r/Assign"])):
    with tf.Graph().as_default() as imported, tf.Session() as session:
        made = tf.import_graph_def(definition, return_elements=["w:0", "r:0", "y:0"])
        session.run(run)
        print(session.run([*made, "import/w:0", "import/r:0"], {"import/x:0": 2.0}))
with tf.Graph().as_default(), tf.Session() as session:
    saver = tf.train.import_meta_graph("model.meta")
    saver.restore(session, "model")
    print(session.run(["w:0", "r:0"]), [isinstance(each, tf.Variable) for each in tf.global_variables()])
"""


def test_the_name_of_a_variable_is_its_value_everywhere(tmp_path: pathlib.Path) -> None:
    lines = output_of(VALUES, tmp_path)
    plain = [line.replace("np.float32(", "").replace("np.int64(", "").replace(")", "") for line in lines]
    assert plain == [
        "[3.0, 7.0, 0] 3.0 3.0",
        "10.0 12.0 2.0",
        "4.0 4.0",
        "[4.0, 7.0, 8.0, 4.0, 7.0]",
        "[3.0, 7.0, 6.0, 3.0, 7.0]",
        "[4.0, 7.0] [True, True, True]",
    ]


LOST = """
import tensorflow as tf
from tensorflow.python.ops import variables
a = tf.get_variable("a", initializer=2.0, use_resource=True)
b = variables.VariableV1(a.initialized_value() * 3.0, name="b")
c = variables.Variable(variables.Variable(5.0).initialized_value() + b.initialized_value())
assert isinstance(a, variables.VariableV1) and isinstance(b, variables.RefVariable)
with tf.Session() as session:
    print(session.run(a.initialized_value()))
    session.run(tf.global_variables_initializer())
    print(session.run([a, b, c]), session.run([tf.assign(a, 7.0)]), session.run(a.initialized_value()))
"""


def test_a_variable_has_the_methods_and_the_private_names_of_tensorflow_1(tmp_path: pathlib.Path) -> None:
    lines = output_of(LOST, tmp_path)
    assert [line.replace("np.float32(", "").replace(")", "") for line in lines] == ["2.0", "[2.0, 6.0, 11.0] [7.0] 7.0"]
