"""The names of TensorFlow 1's `tf.train`; those for clusters are made right, the others are `tf.compat.v1.train`'s.

    from ps_train import train

    server = train.Server(cluster, job_name="ps", task_index=0)
    server.join()                                   # ends the process when all workers have ended

A script changes one import and nothing else.  The differences are in help: migrate#from-raw-tftrain-scripts.
"""

from ps_train.compat.train.train_names import *  # noqa: F403
from ps_train.compat.train.train_names import __all__, __dir__, __getattr__  # noqa: F401
