"""TensorFlow's Saver in one process: `python -m benchmarks.peers.saver ROWS PATH` prints `saved in 1.23 s`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

DIMENSION = 16


def main(arguments: Sequence[str]) -> None:
    rows, path = int(arguments[0]), arguments[1]
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", [rows, DIMENSION], initializer=v1.zeros_initializer(), use_resource=True)
        slot = v1.get_variable("slot", [rows, DIMENSION], initializer=v1.ones_initializer(), use_resource=True)
        saver = v1.train.Saver([table, slot])
        session.run(v1.global_variables_initializer())
        began = time.monotonic()
        saver.save(session, path, write_meta_graph=False)
        print(f"saved in {time.monotonic() - began:.3f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
