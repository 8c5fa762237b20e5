"""Names of contrib.data, and tables of contrib.lookup from numbers to texts."""

import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.contrib import data, lookup
from tensorflow.contrib.data import Dataset, Iterator, TFRecordDataset, batch_and_drop_remainder
from tensorflow.contrib.lookup import index_to_string_table_from_file

assert Dataset is tf.data.Dataset and TFRecordDataset is tf.data.TFRecordDataset and Iterator is tf.data.Iterator

batches = Dataset.range(7).apply(batch_and_drop_remainder(3))
assert batches.output_shapes.as_list() == [3]
padded = Dataset.range(1, 6).map(lambda n: tf.fill([n], n)).apply(data.padded_batch_and_drop_remainder(2, [None]))
pathlib.Path("clicks.csv").write_text("user,click\n3,0\n5,1\n7,1\n")
csv = data.make_csv_dataset("clicks.csv", batch_size=3, label_name="click", num_epochs=1, shuffle=False)
features, labels = csv.make_one_shot_iterator().get_next()
pathlib.Path("words.txt").write_text("red\ngreen\nblue\n")
colours = index_to_string_table_from_file("words.txt", vocab_size=2, default_value="none")
letters = lookup.index_to_string_table_from_tensor(["a", "b"])
back = tf.contrib.lookup.index_table_from_file("words.txt")
found = [
    colours.lookup(tf.constant([1, 0, 2], tf.int64)),
    letters.lookup(tf.constant([[1], [9]], tf.int64)),
    back.lookup(tf.constant(["blue", "red"])),
]
with tf.Session() as session:
    session.run(tf.tables_initializer())
    following = batches.make_one_shot_iterator().get_next()
    assert [session.run(following).tolist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
    try:
        session.run(following)
    except tf.errors.OutOfRangeError:
        pass
    else:
        raise AssertionError("there is a smaller batch")
    rows = session.run(padded.make_one_shot_iterator().get_next())
    np.testing.assert_array_equal(rows, [[1, 0], [2, 2]])
    users, clicks = session.run([features["user"], labels])
    assert users.tolist() == [3, 5, 7] and clicks.tolist() == [0, 1, 1]
    first, second, third = session.run(found)
    assert first.tolist() == [b"green", b"red", b"none"] and second.tolist() == [[b"b"], [b"UNK"]]
    assert third.tolist() == [2, 0]
