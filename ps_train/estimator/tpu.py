"""Names of `tf.estimator.tpu`: those of `tf.contrib.tpu`, for programs that can also train without TPUs."""

from ps_train.compat.tf1.contrib_tpu import *  # noqa: F403
from ps_train.compat.tf1.contrib_tpu import __all__  # noqa: F401
