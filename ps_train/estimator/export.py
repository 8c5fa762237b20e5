"""Receivers of requests, for exports: the tensors that a request feeds, and the features that come from them."""

from ps_train.compat.estimator.export import *  # noqa: F403
from ps_train.compat.estimator.export import __all__  # noqa: F401
