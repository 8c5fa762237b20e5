"""A model of `benchmarks.graph_models` as a task of the classic recipe, in one process, or as an Estimator program.

    python -m benchmarks.peers.graph --model=tables --size=100 --engine=single
    python -m benchmarks.peers.graph --model=columns --size=39 --engine=ours --job_name=ps …

The worker's address is the chief's too: there is one worker.
"""

from __future__ import annotations

import argparse
import json
import logging
import os

import tensorflow.compat.v1 as v1

from benchmarks.graph_models import MODELS
from benchmarks.peers.speech import Marks

ENGINES = ("classic", "single", "ours")


def main() -> None:
    parser = argparse.ArgumentParser(description="A model of any size, trained by one engine.")
    parser.add_argument("--model", choices=list(MODELS), required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--job_name", default="worker", choices=("ps", "worker"))
    parser.add_argument("--ps_hosts", default="")
    parser.add_argument("--worker_hosts", default="")
    parser.add_argument("--max_steps", type=int, default=1 << 30)
    parser.add_argument("--steps_per_run", default="", help="ours only")
    given = parser.parse_args()
    # As in TensorFlow 1: the classic recipe cannot place a condition on a variable of a ps otherwise.
    v1.disable_control_flow_v2()
    {"classic": _classic, "single": _single, "ours": _ours}[given.engine](given)


def _ours(given: argparse.Namespace) -> None:
    from ps_train import estimator

    cluster = {"ps": given.ps_hosts.split(","), "chief": given.worker_hosts.split(",")}
    task = {"type": "ps" if given.job_name == "ps" else "chief", "index": 0}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("ps_train.training.loop").setLevel(logging.DEBUG)  # it announces the first step
    job = {"log_secs": 1, **({"steps_per_run": given.steps_per_run} if given.steps_per_run else {})}
    config = estimator.RunConfig("model", save_checkpoints_secs=3600, save_summary_steps=0, engine="ps_train", job=job)
    model = MODELS[given.model](given.size)
    train = estimator.TrainSpec(model.batches, max_steps=given.max_steps)
    evaluation = estimator.EvalSpec(model.batches, steps=1, start_delay_secs=10**6, throttle_secs=10**6)
    estimator.train_and_evaluate(model.estimator(config), train, evaluation)


def _classic(given: argparse.Namespace) -> None:
    v1.disable_eager_execution()
    cluster = v1.train.ClusterSpec({"ps": given.ps_hosts.split(","), "worker": given.worker_hosts.split(",")})
    server = v1.train.Server(cluster, given.job_name, 0)
    if given.job_name == "ps":
        server.join()
    with v1.device(v1.train.replica_device_setter(cluster=cluster)):
        _train(given, server.target)


def _single(given: argparse.Namespace) -> None:
    v1.disable_eager_execution()
    _train(given, "")


def _train(given: argparse.Namespace, target: str) -> None:
    v1.enable_resource_variables()
    model = MODELS[given.model](given.size)
    step = v1.train.get_or_create_global_step()
    iterator = v1.data.make_initializable_iterator(model.batches())
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    operations = [model.plain_step(*iterator.get_next()), step]
    marks = Marks()
    hooks = [v1.train.StopAtStepHook(last_step=given.max_steps)]
    with v1.train.MonitoredSession(v1.train.ChiefSessionCreator(master=target), hooks) as session:
        while not session.should_stop():
            marks.at(session.run(operations)[1])


if __name__ == "__main__":
    main()
