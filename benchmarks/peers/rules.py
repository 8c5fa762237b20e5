"""TensorFlow's own optimizers, as a program that does not know ps_train would make them."""

from __future__ import annotations

import tensorflow.compat.v1 as v1

from benchmarks.workloads.base import Workload


def optimizer_of(workload: Workload) -> v1.train.Optimizer:
    train, rate = v1.train, workload.default_learning_rate
    makers = {
        "sgd": train.GradientDescentOptimizer,
        "momentum": lambda rate: train.MomentumOptimizer(rate, momentum=0.9),
        "adam": train.AdamOptimizer,
        "adagrad": train.AdagradOptimizer,
    }
    return makers[workload.default_optimizer](rate)
