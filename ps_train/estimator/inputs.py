"""Input functions for arrays and data frames in memory."""

from ps_train.compat.estimator.inputs import *  # noqa: F403
from ps_train.compat.estimator.inputs import __all__  # noqa: F401
