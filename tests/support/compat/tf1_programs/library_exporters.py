"""A library with an exporter of its own, made of the parts of TensorFlow 1's."""

import os
import tempfile

import tensorflow as tf
from tensorflow.python.estimator import gc, util
from tensorflow.python.estimator.canned import metric_keys, prediction_keys
from tensorflow.python.estimator.export import export
from tensorflow.python.estimator.exporter import Exporter, LatestExporter, _SavedModelExporter
from tensorflow_estimator.python.estimator.canned import metric_keys as same_keys
from tensorflow_estimator.python.estimator.estimator_export import estimator_export

assert prediction_keys.PredictionKeys.LOGITS == "logits"
assert same_keys.MetricKeys is metric_keys.MetricKeys and issubclass(LatestExporter, Exporter)


def better(best_eval_result, current_eval_result):
    return current_eval_result[metric_keys.MetricKeys.AUC] > best_eval_result[metric_keys.MetricKeys.AUC]


@estimator_export("estimator.KeepingExporter")
class KeepingExporter(Exporter):
    """Exports results that are better than all before, and keeps two of them."""

    def __init__(self, name, receiver_fn):
        assert set(util.fn_args(better)) == {"best_eval_result", "current_eval_result"}
        self._best, self._exporter = None, _SavedModelExporter(name, receiver_fn)

    @property
    def name(self):
        return self._exporter.name

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if self._best is not None and not better(self._best, eval_result):
            return None
        self._best = eval_result
        found = self._exporter.export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
        numbered = gc._get_paths(export_path, lambda path: path._replace(export_version=int(path.path[-10:])))
        for old in gc._negation(gc._largest_export_versions(2))(numbered):
            tf.gfile.DeleteRecursively(old.path)
        return found


class Estimator:
    """Writes directories whose names are numbers of ten digits."""

    made = 1_700_000_000

    def export_saved_model(self, base, receiver_fn, **options):
        assert receiver_fn is export.build_raw_serving_input_receiver_fn and options["checkpoint_path"] == "ckpt"
        self.made += 1
        os.makedirs(os.path.join(base, str(self.made)))
        return os.path.join(base, str(self.made))


directory = tempfile.mkdtemp()
exporter = KeepingExporter("best", export.build_raw_serving_input_receiver_fn)
estimator = Estimator()
results = [exporter.export(estimator, directory, "ckpt", {"auc": auc}, False) for auc in (0.5, 0.6, 0.55, 0.7)]
assert [result and int(result[-1]) for result in results] == [1, 2, None, 3] and exporter.name == "best"
assert sorted(os.listdir(directory)) == ["1700000002", "1700000003"]
