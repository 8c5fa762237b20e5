"""Programs of TensorFlow 1: raw scripts on `tf.train`, Estimators, and the names that TensorFlow has lost.

The idea: such a program trains on the same engine as a `ps_train.Model` where it can be captured.  Where it cannot, it
trains as a raw script does, by the names of `tf.train` made right.  There is no third way.  Its author changes an
import, or nothing.

Data structures: a `Program` is a model_fn, its input and its settings.  A survey says what a program does, and so
whether the engine can train it.  An `EstimatorSpec` is what a model_fn returns.

It is the last subsystem of the line: no other imports it.
"""
