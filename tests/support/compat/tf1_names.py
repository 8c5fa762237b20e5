"""Names of TensorFlow 1 that programs use, each with a small program of `tf1_programs` that uses it.

`python -m tests.support.compat.tf1_names > tests/support/compat/tf1_names.md` writes the page that lists them.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import runpy
import sys
import traceback

PROGRAMS = pathlib.Path(__file__).parent / "tf1_programs"
SAME = "the same"


@dataclasses.dataclass(frozen=True)
class Row:
    """Names of one kind.

    Attributes:
      names: the names, as the table shows them.
      here: what they are under `--compat`.
      program: a file of `tests/support/compat/tf1_programs`, without its ending, that uses them.
    """

    names: str
    here: str
    program: str


ROWS = [
    Row(
        "`nn.rnn_cell.*`, `contrib.rnn.{BasicRNNCell, BasicLSTMCell, LSTMCell, LSTMBlockCell, GRUCell, MultiRNNCell, "
        "DropoutWrapper, ResidualWrapper, DeviceWrapper}`",
        "the same, with tf-keras",
        "recurrent_cells",
    ),
    Row(
        "`nn.dynamic_rnn`, `nn.bidirectional_dynamic_rnn`, `contrib.rnn.{static_rnn, static_bidirectional_rnn, "
        "stack_bidirectional_rnn, stack_bidirectional_dynamic_rnn}`",
        SAME,
        "recurrent_networks",
    ),
    Row(
        "`keras`",
        "that of TensorFlow 1, with tf-keras; `import keras` is Keras 3 beside it. `TF_USE_LEGACY_KERAS=0` makes "
        "`tf.keras` Keras 3 too",
        "keras_beside",
    ),
    Row(
        "names before 1.0: `initialize_all_variables`, `merge_all_summaries`, `merge_summary`, `scalar_summary`, "
        "`histogram_summary`, `image_summary`, `audio_summary`, `train.SummaryWriter`, `mul`, `sub`, `neg`, `inv`, "
        "`pack`, `unpack`, `select`, `listdiff`, `complex_abs`, `batch_*`, `nn.rnn`, `nn.bidirectional_rnn`",
        "the same; `concat` and `split` take the arguments of TensorFlow 1. `nn.*_cross_entropy_with_logits` reads "
        "arguments without names as logits and labels, and says so",
        "old_names",
    ),
    Row("`contrib.util.{make_tensor_proto, make_ndarray, constant_value}`", SAME, "tensor_protos"),
    Row(
        "`contrib.learn.datasets.mnist.read_data_sets`, `contrib.learn.python.learn.datasets.mnist`, "
        "`examples.tutorials.mnist.{input_data, mnist}`",
        "the same; nothing is downloaded",
        "digits",
    ),
    Row(
        "`contrib.learn.{Experiment, RunConfig, ModeKeys, learn_runner}`, `saved_model_export_utils`, "
        "`contrib.predictor.{from_saved_model, from_estimator}`",
        "the same, for an Estimator of `tf.estimator`",
        "experiments",
    ),
    Row(
        "`contrib.metrics.{streaming_*, accuracy, aggregate_metrics, aggregate_metric_map}`",
        "the same, with tf-slim",
        "streaming_metrics",
    ),
    Row(
        "`layers.{Layer, Dense, Dropout, Flatten, BatchNormalization, Conv1D, Conv2D, Conv3D, MaxPooling2D, "
        "AveragePooling2D}` and their like; `layers.{conv2d_transpose, conv3d, separable_conv2d, max_pooling1d}`",
        "the same, with tf-keras",
        "layer_objects",
    ),
    Row(
        "`contrib.data.{Dataset, batch_and_drop_remainder, padded_batch_and_drop_remainder, make_csv_dataset}`, "
        "`contrib.lookup.{index_table_from_file, index_to_string_table_from_file, "
        "index_to_string_table_from_tensor}`",
        SAME,
        "datasets",
    ),
    Row(
        "`contrib.layers.{layer_norm, embed_sequence}`",
        "the same; `layer_norm`, as all layers, regularizers and initializers, with tf-slim",
        "contrib_layers",
    ),
    Row(
        "`contrib.tpu.{TPUEstimator, TPUEstimatorSpec, RunConfig, TPUConfig, InputPipelineConfig}`",
        "the same with `use_tpu=False`; an Estimator, whose settings of TPUs have no effect",
        "without_tpus",
    ),
    Row("`contrib.training.{HParams, parse_values}`", SAME, "hyperparameters"),
    Row(
        "`estimator.experimental.{stop_if_*_hook, make_early_stopping_hook, make_stop_at_checkpoint_step_hook, "
        "dnn_logit_fn_builder, linear_logit_fn_builder, call_logit_fn}`",
        "the same; the last three with the extra `estimator`",
        "experimental_estimators",
    ),
    Row(
        "`contrib.crf.{crf_log_likelihood, crf_log_norm, crf_sequence_score, crf_decode, viterbi_decode}`",
        SAME,
        "conditional_random_field",
    ),
    Row(
        "`contrib.slim`, `contrib.slim.nets`, and what is not listed of `contrib.{layers, losses, metrics, framework}`",
        "those of tf-slim, with tf-keras",
        "slim",
    ),
    Row(
        "`python.estimator.{training, run_config, estimator, model_fn}`, `_TrainingExecutor`",
        "those of ps_train; so are the same modules of `tensorflow_estimator`",
        "library_training",
    ),
    Row(
        "`python.estimator.{exporter, export, gc, util, canned.metric_keys, estimator_export}`",
        "the same; those that ps_train does not have itself come with the extra `estimator`",
        "library_exporters",
    ),
    Row("`python.estimator.{canned, inputs}.*`", "the same, with the extra `estimator`", "library_heads"),
    Row(
        "`python.keras.*`, `python.distribute.{estimator_training, distribution_strategy_context}`, "
        "`python.training.training_ops`, `python.util.tf_export.estimator_export`, "
        "`python.saved_model.utils_impl.get_variables_path`, `python.ops.resource_variable_ops._from_proto_fn`, "
        "`python.ops.variable_scope.variable`, `python.util.nest.is_sequence`",
        "`python.keras` is tf-keras, as `tf.keras`; the others are the same",
        "library_layers",
    ),
    Row(
        "`contrib.opt.{LazyAdamOptimizer, AdamWOptimizer, MomentumWOptimizer, extend_with_decoupled_weight_decay, "
        "NadamOptimizer, AdaMaxOptimizer, AdamGSOptimizer, LazyAdamGSOptimizer, AddSignOptimizer, "
        "PowerSignOptimizer, LARSOptimizer, MovingAverageOptimizer}`",
        "the same equations",
        "contrib_optimizers",
    ),
    Row(
        "`contrib.summary`, `contrib.seq2seq.sequence_loss`, `contrib.rnn.LSTMBlockFusedCell`, "
        "`contrib.learn.datasets.{base, load_dataset}`",
        "the same; nothing is downloaded",
        "further_contrib",
    ),
    Row(
        "names that private modules have lost, such as `python.ops.array_ops.stack`, "
        "`python.ops.control_flow_ops.cond`; names of TensorFlow 2, such as `random.set_seed`",
        "those of `tf`; `random.set_seed` sets the seed of the graph",
        "names_of_today",
    ),
    Row(
        "`contrib.tpu` with TPUs (`CrossShardOptimizer`), `contrib.cluster_resolver.TPUClusterResolver`, "
        "`contrib.distribute`, the rest of `contrib.seq2seq`, "
        "`contrib.opt.{ElasticAverageOptimizer, ModelAverageOptimizer, AGNOptimizer}`",
        "they may be imported and named; one line says what to write when they are used",
        "refused_when_used",
    ),
    Row("`keras.estimator.model_to_estimator`, and all others", "one line says what to use", "absent_modules"),
]


_HEAD = """# Names of TensorFlow 1 with `--compat`

`python -m ps_train run --compat` gives a script these names. A program of the folder `tf1_programs` tests each row.

"""


def page() -> str:
    """Returns the page that lists all names."""
    lines = ["| `tf.` | with `--compat` |", "|---|---|", *(f"| {row.names} | {row.here} |" for row in ROWS)]
    return _HEAD + "\n".join(lines) + "\n"


def run(programs: list[str]) -> dict[str, str]:
    """Runs programs under the facade, each in a graph of its own; returns their tracebacks, "" for none."""
    import tensorflow as tf

    from ps_train.compat.tf1 import facade

    facade.install()
    found = {}
    for program in programs:
        with tf.Graph().as_default():
            try:
                runpy.run_path(str(PROGRAMS / f"{program}.py"), run_name="__main__")
                found[program] = ""
            except BaseException:
                found[program] = traceback.format_exc()
    return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1:])) if sys.argv[1:] else page(), end="")
