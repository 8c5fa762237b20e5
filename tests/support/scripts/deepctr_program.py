"""An Estimator of the library deepctr: trained, scored, used and exported.  The last line has what came out.

The chief then trains the same Estimator alone, in its own process: that costs no further import of TensorFlow.
"""

import json
import os

import deepctr.estimator
import numpy as np
import tensorflow as tf

tf.flags.DEFINE_string("model", "DeepFM", "Name of the Estimator")
tf.flags.DEFINE_string("model_dir", "model", "Directory of checkpoints")
tf.flags.DEFINE_integer("steps", 400, "Number of global steps")
FLAGS = tf.flags.FLAGS

SIZES = {"C1": 12, "C2": 30, "C3": 7, "C4": 50}
NUMBERS = ("I1", "I2")
DIMENSION = 2


def rows(count, seed):
    """Features and labels; each word adds to the score, so that all models end at about the same."""
    random = np.random.RandomState(seed)
    features = {name: random.randint(0, size, count) for name, size in SIZES.items()}
    features.update({name: random.rand(count, 1).astype(np.float32) for name in NUMBERS})
    score = np.sin(features["C1"]) * 3 + np.cos(features["C2"] * 2) * 3 + features["I1"][:, 0] * 4 - 2
    return features, (random.rand(count) < 1 / (1 + np.exp(-score))).astype(np.float32)


TRAIN, TEST = rows(10_000, 1), rows(4_000, 2)


def train_input():
    return tf.data.Dataset.from_tensor_slices(TRAIN).shuffle(10_000, seed=3).repeat().batch(256)


def test_input():
    return tf.data.Dataset.from_tensor_slices(TEST).batch(2_000)


def columns():
    words = [tf.feature_column.categorical_column_with_identity(name, size) for name, size in SIZES.items()]
    numbers = [tf.feature_column.numeric_column(name) for name in NUMBERS]
    return words + numbers, [tf.feature_column.embedding_column(word, DIMENSION) for word in words] + numbers


def make(config):
    linear, deep = columns()
    given = {"config": config, "dnn_optimizer": tf.train.AdagradOptimizer(0.1)}
    if FLAGS.model != "AFM":  # which has no layers besides
        given["dnn_hidden_units"] = (8, 4)
    if FLAGS.model == "xDeepFM":
        given["cin_layer_size"] = (4, 4)
    if FLAGS.model in ("AFM", "CCPM"):  # these take embeddings alone
        deep = deep[: len(SIZES)]
    if FLAGS.model == "CCPM":
        given.update(conv_kernel_width=(3, 2), conv_filters=(2, 2))
    if FLAGS.model != "PNN":
        given.update(linear_feature_columns=linear, linear_optimizer=tf.train.FtrlOptimizer(0.5))
    return getattr(deepctr.estimator, FLAGS.model + "Estimator")(dnn_feature_columns=deep, **given)


def served(exported, features):
    """Returns the probabilities that an exported model gives."""
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.loader.load(session, ["serve"], exported).signature_def["serving_default"]
        feeds = {signature.inputs[name].name: values for name, values in features.items()}
        return session.run(signature.outputs["pred"].name, feeds)[:, 0]


def config(name):
    return tf.estimator.RunConfig(FLAGS.model_dir + name, tf_random_seed=1, save_checkpoints_steps=FLAGS.steps)


def main(_):
    cluster = config("")
    estimator = make(cluster)
    train_spec = tf.estimator.TrainSpec(train_input, max_steps=FLAGS.steps)
    eval_spec = tf.estimator.EvalSpec(test_input, steps=None, throttle_secs=600)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    if cluster.task_type == "ps" or not cluster.is_chief:
        return
    result = estimator.evaluate(test_input, name="again")
    predicted = np.array([found["pred"][0] for found in estimator.predict(test_input)])
    features = {name: tf.placeholder(tf.int64, [None]) for name in SIZES}
    features.update({name: tf.placeholder(tf.float32, [None, 1]) for name in NUMBERS})
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(features)
    exported = estimator.export_saved_model(FLAGS.model_dir + "_exported", receiver).decode()
    difference = np.abs(served(exported, TEST[0]) - predicted).max()
    os.environ.pop("TF_CONFIG")
    alone = make(config("_alone")).train(train_input, max_steps=FLAGS.steps).evaluate(test_input)
    found = {"auc": result["AUC"], "alone": alone["AUC"], "served": difference}
    found = {"step": int(result["global_step"]), **{name: float(value) for name, value in found.items()}}
    print("FOUND", json.dumps(found), flush=True)


if __name__ == "__main__":
    tf.app.run()
