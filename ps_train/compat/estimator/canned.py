"""The canned models of `tf.estimator`: the classes and heads of tensorflow-estimator 2.15.0 on this Estimator.

    found = canned("DNNLinearCombinedClassifier")       # a class that derives from Estimator

They come with the extra `estimator` of ps_train.  Their model_fn is trained as any other.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow.compat.v1 as v1

from ps_train.base.extras import install
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec import export_outputs
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.stock_package import VERSION, StockPackage, missing_package
from ps_train.compat.estimator.spec.warm_start import VocabInfo, WarmStartSettings

_TPU = "ps_train does not train on TPUs: use Estimator and RunConfig, or tf.estimator.tpu with use_tpu=False"
_REASONS = {
    "InMemoryEvaluatorHook": "it evaluates in the process that trains: use train_and_evaluate with an EvalSpec",
    "KMeans": "it updates its centers with operations of its own: write a model_fn",
    "LinearSDCA": "it keeps a state for each example: use tf.train.FtrlOptimizer in a LinearClassifier",
    "RNNClassifier": "its layers need Keras 2: write a model_fn with tf.nn.dynamic_rnn",
    "RNNEstimator": "its layers need Keras 2: write a model_fn with tf.nn.dynamic_rnn",
    "SavedModelEstimator": "it needs exports of training graphs: keep the checkpoint, or use warm_start_from",
    "build_raw_supervised_input_receiver_fn": "graphs of training are not exported: use export_saved_model",
    "model_to_estimator": "a Keras model does not become an Estimator: build the layers in a model_fn, or describe the "
    "model as ps_train.Model",
    "TPUEstimator": _TPU,
    "TPUEstimatorSpec": _TPU,
}


def refusal_of(name: str) -> str:
    """Returns the reason why a name of `tf.estimator` is not there, or "" for a name that it does not have."""
    return f"{name} is not there, since {_REASONS[name]}." if name in _REASONS else ""


_OF_TRAIN = {
    "Adadelta": "AdadeltaOptimizer",
    "Adagrad": "AdagradOptimizer",
    "Adam": "AdamOptimizer",
    "Ftrl": "FtrlOptimizer",
    "RMSprop": "RMSPropOptimizer",
    "SGD": "GradientDescentOptimizer, or MomentumOptimizer",
}
"""The optimizer of `tf.train` for one of Keras."""


def refuse_keras_optimizer(optimizer: Any) -> None:
    """Raises ValueError for an optimizer of Keras, with the one of `tf.train` to use instead."""
    of_keras = [kind for kind in type(optimizer).__mro__ if kind.__module__.partition(".")[0] in ("keras", "tf_keras")]
    if of_keras:
        instead = next((_OF_TRAIN[kind.__name__] for kind in of_keras if kind.__name__ in _OF_TRAIN), "AdamOptimizer")
        raise ValueError(
            f"the optimizer {of_keras[0].__name__} is one of Keras, and canned models need one of tf.train: "
            f"use tf.train.{instead}"
        )


_TASKS = ("Classifier", "Estimator", "Regressor")
_MODULES = {
    **{f"Baseline{task}": "canned.baseline" for task in _TASKS},
    **{f"DNN{task}": "canned.dnn" for task in _TASKS},
    **{f"Linear{task}": "canned.linear" for task in _TASKS},
    **{f"DNNLinearCombined{task}": "canned.dnn_linear_combined" for task in _TASKS},
    "Head": "head.base_head",
    "BinaryClassHead": "head.binary_class_head",
    "MultiClassHead": "head.multi_class_head",
    "MultiHead": "head.multi_head",
    "MultiLabelHead": "head.multi_label_head",
    **{f"{kind}Head": "head.regression_head" for kind in ("Regression", "LogisticRegression", "PoissonRegression")},
    "classifier_parse_example_spec": "canned.parsing_utils",
    "regressor_parse_example_spec": "canned.parsing_utils",
    **dict.fromkeys(("binary_classification_head", "multi_class_head", "regression_head"), "canned.head"),
}
_OTHER_NAMES = {
    "binary_classification_head": "_binary_logistic_head_with_sigmoid_cross_entropy_loss",
    "multi_class_head": "_multi_class_head_with_softmax_cross_entropy_loss",
    "regression_head": "_regression_head",
}
"""The package's own names of the functions that `tf.contrib.estimator` had."""


def canned(name: str) -> Any:
    """Returns a class or function of tensorflow-estimator; None for a name that is not among them.

    Raises:
      AttributeError: a package that it needs is missing.
    """
    if name not in _MODULES:
        return None
    if missing := missing_for(f"ps_train.estimator.{name}"):
        raise AttributeError(missing)
    return getattr(package_module(_MODULES[name]), _OTHER_NAMES.get(name, name))


def canned_names() -> list[str]:
    """Returns the names of `canned`; none if a package that they need is missing."""
    return [] if missing_package() else sorted(_MODULES.keys() - _OTHER_NAMES.keys())


def private_name(module: str, name: str) -> Any:
    """Returns a name of a module of tensorflow-estimator; what ps_train refuses does so when it is called.

    Args:
      module: as in `package_module`.
      name: in the module; a private one that is public now is found too.
    """
    home = package_module(module)
    public = name.removeprefix("_")  # such as `_linear_logit_fn_builder` of canned.linear
    found = getattr(home, name if hasattr(home, name) else public)
    refused = refusal_of(name.removesuffix("Clustering"))
    if not refused:
        return found

    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise ValueError(refused)

    # A class stays one, since programs test for it; they import it also where they do not use it.
    return type(name, (found,), {"__init__": refuse}) if isinstance(found, type) else refuse


def missing_for(name: str) -> str:
    """Returns a line that says which package a name needs that is not installed, or ""."""
    missing = missing_package()
    return missing and (
        f"{name} needs tensorflow-estimator {VERSION} and tf-keras, but {missing}: "
        f"{install('estimator')}, or write a model_fn."
    )


def package_module(name: str) -> Any:
    """Returns a module of the copy of tensorflow-estimator, in which ps_train's Estimator is the base of models.

    Args:
      name: as `canned.head`.
    """
    return _package().module(name)


@functools.cache
def _package() -> StockPackage:
    unused = types.SimpleNamespace(set=lambda value: None)
    gauge = types.SimpleNamespace(get_cell=lambda *names: unused)
    package = StockPackage(
        {
            "estimator": {
                "Estimator": Estimator,
                "EstimatorV2": Estimator,
                "VocabInfo": VocabInfo,
                "WarmStartSettings": WarmStartSettings,
                "_canned_estimator_api_gauge": gauge,
            },
            "estimator_export": {"estimator_export": lambda *names, **named: lambda exported: exported},
            "export.export_output": vars(export_outputs),
        }
    )
    specs = package.module("model_fn")
    specs.EstimatorSpec = EstimatorSpec  # it checks all values itself
    optimizers = package.module("canned.optimizers")
    optimizers.get_optimizer_instance = _after_refusal(optimizers.get_optimizer_instance)
    specs.export_utils = types.SimpleNamespace(get_export_outputs=lambda outputs, predictions: outputs)
    for name in _WITH_REDUCTION:
        head = getattr(package.module(_MODULES[name]), name)
        head.__init__ = _with_either_reduction(head.__init__)
    return package


_WITH_REDUCTION = (
    "BinaryClassHead",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
)
_REDUCTIONS = {
    v1.losses.Reduction.SUM: "sum",
    v1.losses.Reduction.SUM_OVER_BATCH_SIZE: "sum_over_batch_size",
}
"""TensorFlow 1's values of `tf.losses.Reduction`, and those that heads know, with the same meaning."""


def _with_either_reduction(make: Callable[..., None]) -> Callable[..., None]:
    """Returns the `__init__` of a head that takes the values of TensorFlow 1's `tf.losses.Reduction` too."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*arguments: Any, **options: Any) -> None:
        given = signature.bind(*arguments, **options)
        reduction = given.arguments.get("loss_reduction")
        if reduction in _REDUCTIONS:
            given.arguments["loss_reduction"] = _REDUCTIONS[reduction]
        make(*given.args, **given.kwargs)

    return made


def _after_refusal(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that makes an optimizer of what a program gives, after a refusal of Keras's."""

    @functools.wraps(make)
    def made(optimizer: Any, *arguments: Any, **options: Any) -> Any:
        refuse_keras_optimizer(optimizer)
        return make(optimizer, *arguments, **options)

    return made
