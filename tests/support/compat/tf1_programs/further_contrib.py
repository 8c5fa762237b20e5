"""Further parts of `tf.contrib`: summaries of a writer, the loss of sequences, the fused LSTM, data sets."""

import glob
import tempfile

import numpy as np
import tensorflow as tf

step = tf.train.get_or_create_global_step()
folder = tempfile.mkdtemp()
cell = tf.contrib.rnn.LSTMBlockFusedCell(4)
outputs, state = cell(tf.ones([3, 2, 5]), dtype=tf.float32)
loss = tf.contrib.seq2seq.sequence_loss(tf.transpose(outputs, [1, 0, 2]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
with tf.contrib.summary.create_file_writer(folder).as_default(), tf.contrib.summary.always_record_summaries():
    tf.contrib.summary.scalar("loss", loss, step=step)
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), tf.contrib.summary.summary_writer_initializer_op()])
    session.run(tf.contrib.summary.all_summary_ops())
    value = session.run(loss)
(path,) = glob.glob(f"{folder}/*")
written = [each for event in tf.train.summary_iterator(path) for each in event.summary.value]
assert [each.tag for each in written] == ["loss"] and 0 < value < 3
with open(f"{folder}/iris.csv", "w") as file:
    file.write("1,2,a,b\n6.5,3,1\n")
table = tf.contrib.learn.datasets.base.load_csv_with_header(f"{folder}/iris.csv", np.int32, np.float32)
assert table.data.tolist() == [[6.5, 3.0]] and table.target.tolist() == [1]
assert tf.contrib.learn.datasets.load_dataset("mnist").train.images.shape[1] == 784
