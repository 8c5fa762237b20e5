"""Names that private modules have lost, and names that only TensorFlow 2 has."""

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.ops import array_ops, control_flow_ops
from tensorflow.python.ops.array_ops import stack

assert stack is tf.stack is array_ops.stack and control_flow_ops.cond is tf.cond
options = config_pb2.RPCOptions(use_rpc_for_inprocess_master=True)
assert config_pb2.ConfigProto(rpc_options=options).rpc_options.use_rpc_for_inprocess_master
tf.random.set_seed(3)
assert tf.get_default_graph().seed == 3 and tf.distribute.MultiWorkerMirroredStrategy and tf.keras.losses.Reduction
