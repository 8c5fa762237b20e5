"""The optimizers of `tf.contrib.opt`, each step by step against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import contrib_opt

START = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]])
GRADIENTS = [np.array([[0.1, -0.4], [0.3, 0.2], [-0.6, 0.5]]), np.array([[-0.2, -0.3], [0.1, 0.7], [0.4, 0.9]])]
ROWS = [([0, 2], np.array([[0.1, -0.4], [-0.6, 0.5]])), ([2, 2], np.array([[0.2, 0.1], [0.4, 0.9]]))]
RATE, BETA1, BETA2, EPSILON = 0.01, 0.8, 0.95, 1e-3
ADAM = {"learning_rate": RATE, "beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON}


def train(run, optimizer, sparse=False, resource=True, **options):
    """Returns the variable after two updates."""
    step = v1.train.get_or_create_global_step()
    w = v1.get_variable("w", initializer=START, use_resource=resource)
    if sparse:
        ids = v1.placeholder(tf.int32, [None])
        fed = v1.placeholder(tf.float64, [None, 2])
        gradient = tf.IndexedSlices(fed, ids, dense_shape=START.shape)
    else:
        gradient = fed = v1.placeholder(tf.float64, START.shape)
    update = optimizer.apply_gradients([(gradient, w)], step, **options)
    for each in ROWS if sparse else GRADIENTS:
        run(update, {ids: each[0], fed: each[1]} if sparse else {fed: each})
    return run(w)


def dense(sparse):
    """Returns the gradients of both steps, with the rows that have one."""
    if not sparse:
        return [(gradient, np.ones(3, bool)) for gradient in GRADIENTS]
    found = []
    for ids, values in ROWS:
        gradient, has = np.zeros(START.shape), np.zeros(3, bool)
        np.add.at(gradient, ids, values)
        has[ids] = True
        found.append((gradient, has))
    return found


def adam(sparse, lazy, change, second=lambda v, g: BETA2 * v + (1 - BETA2) * g**2, decay=0.0):
    w, m, v = START.copy(), np.zeros(START.shape), np.zeros(START.shape)
    for t, (g, has) in enumerate(dense(sparse), 1):
        on = has[:, None] if lazy else np.ones((3, 1), bool)
        w -= np.where(has[:, None], decay * w, 0)
        m, v = np.where(on, BETA1 * m + (1 - BETA1) * g, m), np.where(on, second(v, g), v)
        w -= np.where(on if not sparse or lazy or change is usual else has[:, None], change(m, v, g, t), 0)
    return w


def usual(m, v, g, t):
    return RATE * np.sqrt(1 - BETA2**t) / (1 - BETA1**t) * m / (np.sqrt(v) + EPSILON)


def nesterov(m, v, g, t):
    return usual(BETA1 * m + (1 - BETA1) * g, v, g, t)


def largest(m, v, g, t):
    return RATE / (1 - BETA1**t) * m / (v + EPSILON)


def max_norm(v, g):
    return np.maximum(BETA2 * v, np.abs(g))


@pytest.mark.parametrize("resource", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("kind", "lazy", "change", "second"),
    [
        ("LazyAdamOptimizer", True, usual, None),
        ("NadamOptimizer", False, nesterov, None),
        ("AdaMaxOptimizer", True, largest, max_norm),
        ("AdamGSOptimizer", False, usual, None),
        ("LazyAdamGSOptimizer", True, usual, None),
    ],
)
def test_kinds_of_adam(run, kind, lazy, change, second, sparse, resource):
    step = {"global_step": v1.train.get_or_create_global_step()} if "GS" in kind else {}
    got = train(run, getattr(contrib_opt, kind)(**ADAM, **step), sparse, resource)
    wanted = adam(sparse, lazy, change, *([second] if second else []))
    np.testing.assert_allclose(got, wanted, rtol=2e-6)


@pytest.mark.parametrize("kind", ["LazyAdamOptimizer", "AdaMaxOptimizer", "AdamGSOptimizer"])
def test_an_update_may_be_in_a_condition(run, kind):
    """As it is on a ps, where each update is one of those that may be left out."""
    step = {"global_step": v1.train.get_or_create_global_step()} if "GS" in kind else {}
    optimizer = getattr(contrib_opt, kind)(learning_rate=0.1, **step)
    value = v1.get_variable("conditional", initializer=np.ones(2, np.float32), use_resource=True)

    def update():
        with tf.control_dependencies([optimizer.apply_gradients([(tf.ones([2]), value)])]):
            return tf.constant(1)

    updated = tf.cond(v1.placeholder_with_default(True, []), update, lambda: tf.constant(0))
    assert run(updated) == 1
    assert (run(value) < 1).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_weight_decay_is_decoupled_and_takes_rows_of_a_sparse_gradient(run, sparse):
    optimizer = contrib_opt.AdamWOptimizer(0.1, **ADAM)
    np.testing.assert_allclose(train(run, optimizer, sparse), adam(sparse, False, usual, decay=0.1), rtol=2e-6)


def test_only_chosen_variables_decay(run):
    optimizer = contrib_opt.AdamWOptimizer(0.1, **ADAM)
    np.testing.assert_allclose(train(run, optimizer, decay_var_list=[]), adam(False, False, usual), rtol=2e-6)


def momentum(decay=0.0, nesterov=False):
    w, m = START.copy(), np.zeros(START.shape)
    for g in GRADIENTS:
        w -= decay * w
        m = 0.9 * m + g
        w -= RATE * (g + 0.9 * m if nesterov else m)
    return w


def test_momentum_with_decoupled_weight_decay(run):
    optimizer = contrib_opt.MomentumWOptimizer(0.1, RATE, 0.9, use_nesterov=True)
    np.testing.assert_allclose(train(run, optimizer), momentum(0.1, nesterov=True), rtol=2e-6)


def test_any_optimizer_gets_weight_decay(run):
    kind = contrib_opt.extend_with_decoupled_weight_decay(v1.train.MomentumOptimizer)
    np.testing.assert_allclose(train(run, kind(0.1, RATE, 0.9)), momentum(0.1), rtol=2e-6)


@pytest.mark.parametrize("sign_decay_fn", [None, lambda step: 0.5])
@pytest.mark.parametrize(
    ("kind", "scale"),
    [("AddSignOptimizer", lambda same: 1 + same), ("PowerSignOptimizer", lambda same: np.exp(same))],
)
def test_optimizers_of_signs(run, kind, scale, sign_decay_fn):
    got = train(run, getattr(contrib_opt, kind)(RATE, sign_decay_fn=sign_decay_fn))
    w, m = START.copy(), np.zeros(START.shape)
    for g in GRADIENTS:
        m = 0.9 * m + 0.1 * g
        w -= RATE * scale((0.5 if sign_decay_fn else 1) * np.sign(g) * np.sign(m)) * g
    np.testing.assert_allclose(got, w, rtol=2e-6)


@pytest.mark.parametrize("skip_list", [None, ["w"]])
def test_lars(run, skip_list):
    got = train(run, contrib_opt.LARSOptimizer(RATE, 0.9, 0.01, 0.1, skip_list=skip_list))
    w, m = START.copy(), np.zeros(START.shape)
    for g in GRADIENTS:
        rate = RATE
        if skip_list is None:
            norm, of_gradient = np.linalg.norm(w), np.linalg.norm(g)
            rate *= 0.1 * norm / (of_gradient + 0.01 * norm)
            g = g + 0.01 * w
        m = 0.9 * m + rate * g
        w -= m
    np.testing.assert_allclose(got, w, rtol=2e-6)


def test_moving_averages_are_saved_in_the_place_of_their_variables(run, tmp_path):
    optimizer = contrib_opt.MovingAverageOptimizer(v1.train.GradientDescentOptimizer(RATE), 0.75)
    last = train(run, optimizer)
    saver = optimizer.swapping_saver()
    path = saver.save(run.session, str(tmp_path / "model"))
    first = START - RATE * GRADIENTS[0]
    average = 0.75 * (0.75 * START + 0.25 * first) + 0.25 * last
    saved = tf.train.load_checkpoint(path)
    np.testing.assert_allclose(saved.get_tensor("w"), average, rtol=1e-6)
    np.testing.assert_allclose(saved.get_tensor("w/ExponentialMovingAverage"), last, rtol=1e-6)
