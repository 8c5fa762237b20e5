"""Names for TPUs and strategies may be imported and named, and say what to write when they are used."""

import tensorflow as tf
from tensorflow.contrib.cluster_resolver import TPUClusterResolver
from tensorflow.contrib.distribute import MirroredStrategy
from tensorflow.contrib.opt import AGNOptimizer, ElasticAverageOptimizer, ModelAverageOptimizer
from tensorflow.contrib.seq2seq import BeamSearchDecoder
from tensorflow.contrib.tpu import CrossShardOptimizer

USED = {
    CrossShardOptimizer: "leave it out where use_tpu is False.",
    TPUClusterResolver: "describe the cluster in TF_CONFIG.",
    MirroredStrategy: "makes their updates synchronous.",
    BeamSearchDecoder: "the cells of tf.nn.rnn_cell.",
    **dict.fromkeys((AGNOptimizer, ElasticAverageOptimizer, ModelAverageOptimizer), "use an optimizer of tf.train."),
}
for kind, advice in USED.items():
    try:
        kind("anything")
    except NotImplementedError as error:
        assert str(error).startswith("tf.contrib.") and str(error).endswith(advice), error
    else:
        raise AssertionError(kind)
assert not isinstance(tf.train.AdamOptimizer(), CrossShardOptimizer)
