"""Names of `tf.estimator.experimental`: hooks that end the training early."""

from ps_train.compat.estimator.experimental import *  # noqa: F403
from ps_train.compat.estimator.experimental import __all__  # noqa: F401
