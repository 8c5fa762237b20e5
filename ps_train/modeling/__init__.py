"""The parts that users write models with: the class `Model`, embedding tables, losses, optimizers and metrics.

The idea: a model is ordinary TensorFlow code without a word about ps and workers.  The same methods build the scratch
graph that finds its variables, the training step, the evaluation and the export.

Data structures: `Model` is the class with a few methods.  A `Table` is a declaration of rows, dimension and initial
values.  The splits of a job's data are loaded once per task.

It does not know where variables live.  In a plain graph everything here works without a cluster.
"""
