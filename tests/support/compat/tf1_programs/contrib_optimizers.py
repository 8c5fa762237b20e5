"""Optimizers of `tf.contrib.opt` find a minimum."""

import tensorflow as tf
from tensorflow.contrib import opt

step = tf.train.get_or_create_global_step()
OPTIMIZERS = {
    "lazy": opt.LazyAdamOptimizer(0.1),
    "adamw": opt.AdamWOptimizer(1e-5, 0.1),
    "momentumw": opt.MomentumWOptimizer(1e-5, 0.02, 0.8),
    "extended": opt.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)(1e-5, 0.1),
    "nadam": opt.NadamOptimizer(0.1),
    "adamax": opt.AdaMaxOptimizer(0.1),
    "gs": opt.AdamGSOptimizer(step, 0.1),
    "lazy_gs": opt.LazyAdamGSOptimizer(step, 0.1),
    "add_sign": opt.AddSignOptimizer(0.05),
    "power_sign": opt.PowerSignOptimizer(0.05),
    "lars": opt.LARSOptimizer(0.5, 0.5, eeta=0.1),
    "average": opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.1), 0.5),
}
losses, updates = {}, []
for name, optimizer in OPTIMIZERS.items():
    w = tf.get_variable(name, initializer=[1.0, -2.0])
    losses[name] = tf.reduce_sum(tf.square(w - [3.0, 1.0]))
    updates.append(optimizer.minimize(losses[name], var_list=[w]))
update = tf.group(*updates, tf.assign_add(step, 1))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    before = session.run(losses)
    for _ in range(100):
        session.run(update)
    after = session.run(losses)
assert all(after[name] < 0.2 * before[name] for name in losses), after
