"""Estimators of the library deepctr, each trained in a cluster of its own, scored, used and exported.

    python -m ps_train run --compat deepctr_program.py --job=DeepFM:1 --job=WDL:2       # Estimator:number of ps

The tasks of all jobs are forks of this process, and so TensorFlow and the library are imported once.  The chief then
trains the same Estimator alone, and prints what came out.
"""

import json
import multiprocessing
import os

import deepctr.estimator
import numpy as np
import tensorflow as tf

from tests.support.machine.ports import free_ports

tf.flags.DEFINE_multi_string("job", [], "An Estimator and the number of its ps, as DeepFM:1")
tf.flags.DEFINE_integer("steps", 400, "Number of global steps")
tf.flags.DEFINE_integer("seed", 1, "Of the initial values")
FLAGS = tf.flags.FLAGS

WORKERS = 2
SIZES = {"C1": 12, "C2": 30}
NUMBERS = ("I1",)
DIMENSION = 2


def rows(count, seed):
    """Features and labels; each word adds to the score, so that all models end at about the same."""
    random = np.random.RandomState(seed)
    features = {name: random.randint(0, size, count) for name, size in SIZES.items()}
    features.update({name: random.rand(count, 1).astype(np.float32) for name in NUMBERS})
    score = np.sin(features["C1"]) * 3 + np.cos(features["C2"] * 2) * 3 + features["I1"][:, 0] * 4 - 2
    return features, (random.rand(count) < 1 / (1 + np.exp(-score))).astype(np.float32)


TRAIN, TEST = rows(40_000, 1), rows(4_000, 2)


def train_input():
    return tf.data.Dataset.from_tensor_slices(TRAIN).shuffle(40_000, seed=3).repeat().batch(256)


def test_input():
    return tf.data.Dataset.from_tensor_slices(TEST).batch(2_000)


def columns():
    words = [tf.feature_column.categorical_column_with_identity(name, size) for name, size in SIZES.items()]
    numbers = [tf.feature_column.numeric_column(name) for name in NUMBERS]
    return words + numbers, [tf.feature_column.embedding_column(word, DIMENSION) for word in words] + numbers


def make(model, config):
    linear, deep = columns()
    given = {"config": config, "dnn_optimizer": tf.train.AdagradOptimizer(0.1)}
    if model != "AFM":  # which has no layers besides
        given["dnn_hidden_units"] = (8,)
    if model == "xDeepFM":
        given["cin_layer_size"] = (4, 4)
    if model in ("AFM", "CCPM"):  # these take embeddings alone
        deep = deep[: len(SIZES)]
    if model == "CCPM":
        given.update(conv_kernel_width=(3, 2), conv_filters=(2, 2))
    if model != "PNN":
        given.update(linear_feature_columns=linear, linear_optimizer=tf.train.FtrlOptimizer(0.5))
    return getattr(deepctr.estimator, model + "Estimator")(dnn_feature_columns=deep, **given)


def served(exported, features):
    """Returns the probabilities that an exported model gives."""
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.loader.load(session, ["serve"], exported).signature_def["serving_default"]
        feeds = {signature.inputs[name].name: values for name, values in features.items()}
        return session.run(signature.outputs["pred"].name, feeds)[:, 0]


def config(directory):
    return tf.estimator.RunConfig(directory, tf_random_seed=FLAGS.seed, save_checkpoints_steps=FLAGS.steps)


def task(model, cluster, job_name, index):
    """The life of a task of the job of an Estimator."""
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job_name, "index": index}})
    own = config(model)
    estimator = make(model, own)
    train_spec = tf.estimator.TrainSpec(train_input, max_steps=FLAGS.steps)
    eval_spec = tf.estimator.EvalSpec(test_input, steps=None, throttle_secs=600)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)  # a ps ends here
    if not own.is_chief:
        return
    result = estimator.evaluate(test_input, name="again")
    predicted = np.array([found["pred"][0] for found in estimator.predict(test_input)])
    features = {name: tf.placeholder(tf.int64, [None]) for name in SIZES}
    features.update({name: tf.placeholder(tf.float32, [None, 1]) for name in NUMBERS})
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(features)
    exported = estimator.export_saved_model(f"{model}_exported", receiver).decode()
    difference = np.abs(served(exported, TEST[0]) - predicted).max()
    os.environ.pop("TF_CONFIG")
    alone = make(model, config(f"{model}_alone")).train(train_input, max_steps=FLAGS.steps).evaluate(test_input)
    found = {"auc": result["AUC"], "alone": alone["AUC"], "served": difference}
    found = {"step": int(result["global_step"]), **{name: float(value) for name, value in found.items()}}
    print("FOUND", json.dumps({"model": model, **found}), flush=True)


def run(model, num_ps):
    """Runs the job of an Estimator; ends this process if one of its tasks fails."""
    ports = iter(free_ports(num_ps + WORKERS))
    sizes = {"ps": num_ps, "worker": WORKERS}
    cluster = {name: [f"127.0.0.1:{next(ports)}" for _ in range(size)] for name, size in sizes.items()}
    fork = multiprocessing.get_context("fork")
    tasks = [fork.Process(target=task, args=(model, cluster, name, i)) for name in sizes for i in range(sizes[name])]
    for each in tasks:
        each.start()
    for each in tasks:
        each.join()
    if any(each.exitcode for each in tasks):
        raise SystemExit(1)


def main(_):
    for job in FLAGS.job:
        model, _, num_ps = job.partition(":")
        run(model, int(num_ps))


if __name__ == "__main__":
    tf.app.run()
