"""contrib.metrics: predictions come before labels, values over several batches."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import metrics
from tensorflow.contrib.metrics import streaming_auc

assert metrics.streaming_auc is streaming_auc is tf.contrib.metrics.streaming_auc

random = np.random.RandomState(0)
scores, labels = random.rand(2, 40).astype(np.float32), random.randint(0, 2, size=[2, 40])
wide, classes = random.rand(2, 40, 5).astype(np.float32), random.randint(0, 5, size=[2, 40])
score, label = tf.placeholder(tf.float32, [40]), tf.placeholder(tf.int64, [40])
row, kind = tf.placeholder(tf.float32, [40, 5]), tf.placeholder(tf.int64, [40])
chosen = tf.cast(score > 0.3, tf.int64)
values, updates = metrics.aggregate_metric_map(
    {
        "auc": streaming_auc(score, label, num_thresholds=2000),
        "accuracy": metrics.streaming_accuracy(chosen, label),
        "precision": metrics.streaming_precision(chosen, label),
        "recall": metrics.streaming_recall(chosen, label),
        "mean": metrics.streaming_mean(score),
        "squares": metrics.streaming_mean_squared_error(score, tf.to_float(label)),
        "root": metrics.streaming_root_mean_squared_error(score, tf.to_float(label)),
        "magnitudes": metrics.streaming_mean_absolute_error(score, tf.to_float(label)),
        "top": metrics.streaming_recall_at_k(row, kind, 2),
        "sparse_top": metrics.streaming_sparse_recall_at_k(row, kind, 2),
        "negatives": metrics.streaming_false_negatives(chosen, label),
        "below": metrics.streaming_percentage_less(score, 0.25),
    }
)
assert metrics.aggregate_metrics((1, 2), (3, 4)) == ([1, 3], [2, 4])
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    for batch in range(2):
        feeds = {score: scores[batch], label: labels[batch], row: wide[batch], kind: classes[batch]}
        session.run(updates, feeds)
    found = session.run(values)
    once = session.run(metrics.accuracy(chosen, label, weights=tf.to_float(label)), feeds)
s, t = scores.ravel(), labels.ravel()
hit, is_positive = s > 0.3, t == 1
order = (s[is_positive][:, None] > s[~is_positive]).mean()
top = (np.argsort(-wide, -1)[..., :2] == classes[..., None]).any(-1).mean()
expected = {
    "auc": order,
    "accuracy": (hit == is_positive).mean(),
    "precision": (hit & is_positive).sum() / hit.sum(),
    "recall": (hit & is_positive).sum() / is_positive.sum(),
    "mean": s.mean(),
    "squares": ((s - t) ** 2).mean(),
    "root": np.sqrt(((s - t) ** 2).mean()),
    "magnitudes": np.abs(s - t).mean(),
    "top": top,
    "sparse_top": top,
    "negatives": (~hit & is_positive).sum(),
    "below": (s < 0.25).mean(),
}
assert found.keys() == expected.keys()
for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, atol=2e-3 if name == "auc" else 1e-5, err_msg=name)
np.testing.assert_allclose(once, hit[40:][is_positive[40:]].mean(), rtol=1e-5)
