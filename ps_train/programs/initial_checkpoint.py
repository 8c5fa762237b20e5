"""The first checkpoint of a program whose initial values come from elsewhere than its variables' initializers.

Warm starts, `tf.train.init_from_checkpoint` and a scaffold's `init_fn` run in a plain session of TensorFlow's own.  The
engine then restores what this session has saved, as it restores any checkpoint.
"""

from __future__ import annotations

import os

import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.programs.batches import batched_input
from ps_train.programs.program import TRAIN, Program
from ps_train.programs.sessions import estimator_graph, in_one_piece


def write_initial_checkpoint(program: Program) -> str:
    """Writes the initial values of a program's variables into its model directory, as step 0; returns the path."""
    with estimator_graph(program.config):
        batches = training_batches(batched_input(program.input_fn), WHOLE, 1, epochs=1, shuffle_buffer=0)
        scope = v1.get_variable_scope()
        with v1.variable_scope(scope, custom_getter=in_one_piece, auxiliary_name_scope=False):
            spec = program.model_fn(batches.features.features, batches.features.labels, TRAIN)
        if program.warm_start is not None:
            v1.train.warm_start(*program.warm_start)
        saver = v1.train.Saver(v1.global_variables(), max_to_keep=None)
        scaffold = (spec.scaffold or v1.train.Scaffold()).finalize()
        with v1.Session() as session:
            session.run(scaffold.init_op, scaffold.init_feed_dict)
            session.run(scaffold.local_init_op)
            if scaffold.init_fn is not None:
                scaffold.init_fn(session)
            os.makedirs(program.model_dir, exist_ok=True)
            return str(saver.save(session, os.path.join(program.model_dir, "model.ckpt"), global_step=0))
