"""The test files of the peers, by the short name of a suite, with their paths below the folder of a peer's repository.

SUITES["run_config"]            # "tensorflow_estimator/python/estimator/run_config_test.py"
"""

from __future__ import annotations

_ESTIMATOR = "tensorflow_estimator/python/estimator"
_TRAINING = "tensorflow/python/training"

SUITES = {
    **{
        name: f"{_ESTIMATOR}/{name}_test.py"
        for name in (
            "early_stopping", "estimator", "exporter", "extenders", "gc", "model_fn", "run_config", "training", "util",
        )
    },
    **{f"hooks.{name}": f"{_ESTIMATOR}/hooks/{name}_test.py" for name in ("basic_session_run_hooks", "hooks")},
    **{f"inputs.{name}": f"{_ESTIMATOR}/inputs/{name}_test.py" for name in ("numpy_io", "pandas_io")},
    **{f"export.{name}": f"{_ESTIMATOR}/export/{name}_test.py" for name in ("export", "function")},
    **{
        f"head.{name}": f"{_ESTIMATOR}/head/{name}_test.py"
        for name in (
            "base_head", "binary_class_head", "multi_class_head", "multi_head", "multi_label_head", "regression_head",
            "sequential_head",
        )
    },
    **{
        f"canned.{name}": f"{_ESTIMATOR}/canned/{name}_test.py"
        for name in (
            "baseline", "baseline_estimator", "dnn_estimator", "dnn_linear_combined", "dnn_linear_combined_estimator",
            "head", "linear", "linear_estimator", "optimizers", "parsing_utils",
        )
    },
    **{
        f"train.{name}": f"{_TRAINING}/{name}_test.py"
        for name in (
            "adadelta", "adagrad", "adagrad_da", "adam", "basic_loops", "basic_session_run_hooks",
            "checkpoint_management", "checkpoint_ops", "checkpoint_utils", "coordinator", "device_setter", "evaluation",
            "ftrl", "gradient_descent", "input", "learning_rate_decay", "momentum", "monitored_session",
            "moving_averages", "optimizer", "proximal_adagrad", "proximal_gradient_descent", "queue_runner", "rmsprop",
            "saver", "saver_large_variable", "server_lib", "session_manager", "slot_creator", "supervisor",
            "sync_replicas_optimizer", "training_util", "warm_starting_util",
        )
    },
}  # fmt: skip
"""Tests of tensorflow/estimator 2.15, and (`train.`) of TensorFlow 1.15."""
