"""The names of `tf.contrib` that a program may have for TPUs and strategies, and that are refused when they are used.

DISTRIBUTE["MirroredStrategy"]()        # NotImplementedError: what to write instead
"""

from __future__ import annotations

import functools
from typing import Any

from ps_train.compat.tf1.refused_use import refused as _refused

refused = functools.partial(_refused, home=__name__)

_TPU = "ps_train does not train on TPUs; leave it out where use_tpu is False"
_STRATEGY = (
    "leave the strategy out, since the tasks of TF_CONFIG train together without it; "
    'RunConfig(job={"update": "sync"}) makes their updates synchronous'
)

TPU = refused(
    "CrossShardOptimizer TPUDistributionStrategy batch_parallel core cross_replica_sum infeed_dequeue "
    "infeed_dequeue_tuple infeed_enqueue infeed_enqueue_tuple initialize_system keras_to_tpu_model "
    "outfeed_dequeue outfeed_dequeue_tuple outfeed_enqueue outfeed_enqueue_tuple outside_compilation repeat replicate "
    "rewrite shard shutdown_system while_loop",
    "tf.contrib.tpu",
    _TPU,
)
CLUSTER_RESOLVER = refused(
    "TPUClusterResolver",
    "tf.contrib.cluster_resolver",
    "ps_train does not train on TPUs; leave it out where use_tpu is False, and describe the cluster in TF_CONFIG",
)
DISTRIBUTE = refused(
    "AllReduceCrossDeviceOps AllReduceCrossTowerOps CollectiveAllReduceStrategy CrossDeviceOps DistributeConfig "
    "DistributionStrategy MirroredStrategy Monitor MultiWorkerAllReduce OneDeviceStrategy ParameterServerStrategy "
    "ReductionToOneDeviceCrossDeviceOps StandardInputStep StandardSingleLossStep Step TPUStrategy "
    "initialize_tpu_system run_standard_tensorflow_server",
    "tf.contrib.distribute",
    _STRATEGY,
)
_LOCAL = (
    "minimize with its inner optimizer alone, without the custom getter, and train with --local_steps={steps} "
    "--outer_optimizer={outer}, {why}"
)
OPT = refused(
    "ElasticAverageCustomGetter ElasticAverageOptimizer",
    "tf.contrib.opt",
    _LOCAL.format(
        steps="COMMUNICATION_PERIOD", outer="elastic", why="where --outer_optimizer_arg=alpha=... is its moving_rate"
    ),
)
OPT |= refused(
    "ModelAverageCustomGetter ModelAverageOptimizer",
    "tf.contrib.opt",
    _LOCAL.format(steps="INTERVAL_STEPS", outer="sgd --update=sync", why="which averages the workers' values"),
)
OPT |= refused(
    "AGNCustomGetter AGNOptimizer",
    "tf.contrib.opt",
    _LOCAL.format(
        steps="COMMUNICATION_PERIOD",
        outer="sgd",
        why="where --outer_optimizer_arg=learning_rate=... is 1/COMMUNICATION_PERIOD",
    ),
)
OPT |= refused("DropStaleGradientOptimizer", "tf.contrib.opt", "--update=bounded limits how stale a gradient may be")
OPT |= refused(
    "ExternalOptimizerInterface GGTOptimizer MultitaskOptimizerWrapper RegAdagradOptimizer ScipyOptimizerInterface "
    "ShampooOptimizer SWAOptimizer VariableClippingOptimizer",
    "tf.contrib.opt",
    "ps_train has no substitute; use an optimizer of tf.train, or copy the class into the program",
)
_SEQ2SEQ = "write it in the script, with tf.nn.dynamic_rnn, tf.while_loop and the cells of tf.nn.rnn_cell"
SEQ2SEQ = refused(
    "AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention BahdanauMonotonicAttention "
    "BasicDecoder BasicDecoderOutput BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState CustomHelper "
    "Decoder FinalBeamSearchDecoderOutput GreedyEmbeddingHelper Helper InferenceHelper LuongAttention "
    "LuongMonotonicAttention SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper "
    "TrainingHelper dynamic_decode gather_tree hardmax monotonic_attention safe_cumprod tile_batch",
    "tf.contrib.seq2seq",
    _SEQ2SEQ,
)


def __getattr__(name: str) -> Any:
    """Returns one of these names, which pickle looks for in this module."""
    for names in (TPU, CLUSTER_RESOLVER, DISTRIBUTE, OPT, SEQ2SEQ):
        if name in names:
            return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
