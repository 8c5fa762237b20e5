"""The Estimator API on the engine of ps_train.

    from ps_train import estimator as tf_estimator
    trained = tf_estimator.Estimator(model_fn, "/models/run1")

The names are those of `tf.estimator`.
"""

from ps_train.compat.estimator.estimator_names import *  # noqa: F403
from ps_train.compat.estimator.estimator_names import __all__ as _names
from ps_train.compat.estimator.estimator_names import __getattr__  # noqa: F401
from ps_train.estimator import experimental, export, inputs  # noqa: F401

__all__ = sorted([*_names, "experimental", "export", "inputs"])
