"""Names that stay absent say in one line what to use."""

import tensorflow as tf

from tests.support.compat.tf1_refusals import refused

ADVICE = {
    "contrib.tpu.NoSuchName": "use tf.estimator.Estimator, or TPUEstimator(use_tpu=False)",
    "contrib.eager": "remove it",
    "contrib.opt.NoSuchOptimizer": "use an optimizer of tf.train",
    "contrib.graph_editor": "write it in the script, with tf.nn, tf.layers and tf.get_variable",
}
for module, advice in ADVICE.items():
    package, _, name = module.rpartition(".")
    lines = {
        refused(f"tf.{module}", tf=tf),
        refused(f"import tensorflow.{module}"),
        refused(f"from tensorflow.{package} import {name}"),
        refused(f"from tensorflow.{module} import Something").replace(f"{module}.Something", module),
    }
    assert len(lines) == 1, lines
    assert lines.pop().endswith(f"{advice}."), module
REASON = "build the layers in a model_fn, or describe the model as ps_train.Model."
for code in (
    "tf.keras.estimator.model_to_estimator",
    "from tensorflow.keras.estimator import model_to_estimator",
    "tf.estimator.model_to_estimator",
):
    assert refused(code, tf=tf).endswith(REASON)

FORKS = {
    "python.ops.kv_variable_ops": "or a table of ps_train.embeddings.",
    "python.ops.work_queue": "with tf.data.Dataset.shard.",
    "python.data.experimental.ops.parquet_dataset_ops": "read Parquet files with ps_train.data.",
    "python.somewhere.gone": "use the public name in tf.",
}
for module, advice in FORKS.items():
    package, _, name = module.rpartition(".")
    assert refused(f"import tensorflow.{module}").endswith(advice), module
    if package != "python.somewhere":
        assert refused(f"from tensorflow.{package} import {name}").endswith(advice), module
    assert refused(f"from tensorflow.{module} import Something").endswith(advice), module

OF_MODULES = {
    "keras.utils.multi_gpu_model": "the tasks of TF_CONFIG train together, and each uses its own GPUs.",
    "nn.seq2seq": "with the cells of tf.nn.rnn_cell and tf.nn.static_rnn.",
    "models.rnn": "copy the module beside the script.",
    **dict.fromkeys(("nn.gone", "keras.layers.Gone", "logging.gone", "data.experimental.gone"), "of tf.compat.v1."),
}
for name, advice in OF_MODULES.items():
    module, _, last = name.rpartition(".")
    for code in (f"tf.{name}", f"import tensorflow.{name}", f"from tensorflow.{module} import {last}"):
        assert refused(code, tf=tf).endswith(advice), code
