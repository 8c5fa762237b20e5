"""The parts that users write models with: the class `Model`, embedding tables, losses, optimizers and metrics.

The idea: a model is ordinary TensorFlow code without a word about ps and workers.  The same methods build the scratch
graph that finds its variables, the training step, the evaluation and the export.

Data structures: `Model` is the class with a few methods.  A `Table` is a declaration of rows, dimension and initial
values.  The splits of a job's data are loaded once per task.

It does not know where variables live.  In a plain graph everything here works without a cluster.

Files:

    tables/        Embedding tables, the worker's side: declarations, lookups, and the order of rows
    features.py    Features from columns: buckets, crossed columns, position bias
    file_check.py  Checks of the model's file before TensorFlow is imported: it exists, compiles, and has the class
                     and its arguments
    losses.py      Losses for clicks and rankings: focal, weights, smoothing, pairs and lists within groups
    metrics.py     Metrics of predictions: AUC, log-loss, calibration, and metrics within groups
    model.py       The base class of the user's models: data, outputs, loss, metrics and optimizer
    negatives.py   Negatives for retrieval: the other items of a batch, or items drawn from a table
    optimizers.py  Optimizers for tables: they read and write only the rows that have a gradient
    ranking.py     Metrics of ranked rows, within groups or among all: AUC, precision, recall and NDCG; in numpy
    row_buffer.py  Rows that a metric keeps until its value is computed, in local variables that grow
    scratch_graph.py  Scratch graphs: a model is built in them to be looked at, and they never run
    splits.py      The splits of a job's data, as a task loads them
"""
