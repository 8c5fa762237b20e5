"""Names of `tf.estimator.experimental`: hooks that end the training early, and functions of canned models."""

from ps_train.compat.estimator.experimental import *  # noqa: F403
from ps_train.compat.estimator.experimental import __all__, __getattr__  # noqa: F401
