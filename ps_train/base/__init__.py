"""This process and its machine: parts that every other subsystem may use, and that know nothing of training.

The idea: facts about a process (its console, signals, memory, errors, addresses) are asked for in one place each, so
that the rest of the package reads them as values.  Most modules need only the standard library, so `--help` and a
wrong flag are answered without TensorFlow.

Data structures: `PsTrainError` and its subclasses carry the exit code of a failure.  A `Console` owns the two output
streams and the progress line.  `ProcessStats` is one reading of CPU time, memory and bytes.

It does not know jobs, clusters, models or graphs.  `private_tf.py` is the only module that uses private names of
TensorFlow, with a test for each.
"""
