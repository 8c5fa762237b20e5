"""Names of TensorFlow before 1.0 compute what their successors do."""

import numpy as np
import tensorflow as tf

from tests.support.compat.tf1_refusals import refused

x = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)
y = np.array([[2.0, 5.0], [-1.0, 0.5]], np.float32)
weight = tf.Variable(x, name="weight")
pairs = {
    "mul": (tf.mul(x, y), x * y),
    "sub": (tf.sub(x, y), x - y),
    "neg": (tf.neg(x), -x),
    "inv": (tf.inv(x), 1 / x),
    "pack": (tf.pack([x, y], axis=1), np.stack([x, y], 1)),
    "unpack": (tf.unpack(x, axis=1)[1], x[:, 1]),
    "select": (tf.select(x > 0, x, y), np.where(x > 0, x, y)),
    "listdiff": (tf.listdiff([1, 2, 3], [2])[0], [1, 3]),
    "complex_abs": (tf.complex_abs(tf.complex(3.0, 4.0)), 5.0),
    "batch_matmul": (tf.batch_matmul(x[None], y[None]), (x @ y)[None]),
    "batch_matrix_diag": (tf.batch_matrix_diag(x), [np.diag(row) for row in x]),
    "batch_matrix_inverse": (tf.batch_matrix_inverse(x), np.linalg.inv(x)),
    "batch_cholesky": (tf.batch_cholesky(x @ x.T), np.linalg.cholesky(x @ x.T)),
    "constant": (tf.constant(range(4), tf.float32, [2, 2]), [[0, 1], [2, 3]]),
    "all_variables": (tf.all_variables()[0], x),
    "whitening": (tf.image.per_image_whitening(x[None, :, :, None])[0, :, :, 0], (x - x.mean()) / x.std()),
    "rnn": (tf.stack(tf.nn.rnn(tf.nn.rnn_cell.BasicRNNCell(1), [tf.zeros([2, 2])], dtype=tf.float32)[0]), [[[0]] * 2]),
}
tf.scalar_summary("loss", tf.reduce_sum(weight))
tf.histogram_summary("weights", weight)
tf.image_summary("picture", tf.zeros([1, 2, 2, 1]))
tf.audio_summary("sound", tf.zeros([1, 8]), 4.0)
merged = tf.merge_all_summaries()
alone = tf.merge_summary([tf.scalar_summary(["a", "b"], [1.0, 2.0], collections=[])])
assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 4 and tf.contrib.deprecated.scalar_summary is tf.scalar_summary

with tf.Session() as session:
    session.run(tf.initialize_all_variables())
    session.run(tf.initialize_local_variables())
    for name, (found, expected) in pairs.items():
        np.testing.assert_allclose(session.run(found), expected, atol=1e-5, err_msg=name)
    writer = tf.train.SummaryWriter("events", session.graph)
    for summary in session.run([merged, alone]):
        writer.add_summary(summary, 7)
    writer.close()
values = {}
for event in tf.train.summary_iterator(tf.gfile.Glob("events/*")[0]):
    values.update({value.tag: (event.step, value) for value in event.summary.value})
assert {"loss", "weights", "picture/image/0", "sound/audio/0", "a", "b"} == values.keys()
assert values["loss"][0] == 7 and values["loss"][1].simple_value == x.sum() and values["b"][1].simple_value == 2

for loss in ("softmax", "sigmoid", "sparse_softmax"):
    name = f"{loss}_cross_entropy_with_logits"
    labels = [0, 1] if loss == "sparse_softmax" else np.eye(2, dtype=np.float32)
    assert getattr(tf.nn, name)(logits=x, labels=labels, name="loss").op.name.startswith("loss")
    with tf.Session() as session:
        named, in_order = session.run([getattr(tf.nn, name)(logits=x, labels=labels), getattr(tf.nn, name)(x, labels)])
    np.testing.assert_array_equal(named, in_order)
assert refused("tf.nn.softmax_cross_entropy_with_logits(x, x, 'loss', 0)", tf=tf, x=x).endswith("4 arguments are given")
