"""One process, no ps: the same step in a plain session.  What a ps with two workers on two cores can hope for.

python -m benchmarks.peers.single --workload=small --threads=2
"""

from __future__ import annotations

import gc

import tensorflow.compat.v1 as v1

from benchmarks.peers import inputs
from benchmarks.peers.rules import optimizer_of
from benchmarks.peers.speech import Marks, parse, say_test_loss
from benchmarks.workloads import load


def main() -> None:
    arguments = parse("One process without a parameter server.")
    v1.disable_eager_execution()
    workload = load(arguments.workload)
    iterator = v1.data.make_initializable_iterator(inputs.training(workload, seed=arguments.task_index))
    features, labels = iterator.get_next()
    with v1.variable_scope("model"):
        loss = workload.loss(workload.peers_forward(features, training=True), labels)
    train_op = optimizer_of(workload).minimize(loss)
    test = workload.data("test", "")
    with v1.variable_scope("model", reuse=True):
        test_loss = workload.loss(
            workload.peers_forward(v1.convert_to_tensor(test.features), training=False), test.labels
        )
    threads = arguments.threads
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    with v1.Session(config=config) as session:
        session.run([v1.global_variables_initializer(), iterator.initializer])
        gc.collect()
        gc.freeze()
        marks = Marks()
        for step in range(1, arguments.max_steps + 1):
            session.run(train_op)
            marks.at(step)
        say_test_loss(session.run(test_loss))


if __name__ == "__main__":
    main()
