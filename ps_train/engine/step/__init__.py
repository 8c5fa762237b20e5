"""The graph of one replica: the training step, several steps in one call, and the evaluation.

The idea: a step is built once and then copied.  `train_step.py` joins the worker's part (batch, pull, forward,
backward, push) to the ps's part (variables and updates).  `unroll.py` copies its nodes, so that one call makes
several steps.  What a feature adds to both parts is one file in `parts`.

Data structures: `GraphSpec` is the input of the construction, `TrainStep` its result: a `WorkerStep`, a `PsStep`, and
the operations that a loop runs.  `Computed` is loss and gradients as means over all batches and towers of a push.  A
`Template` is a set of nodes to copy.  `EvalGraph` has the metrics of a model on its test data.

It does not know when a step is run, nor what happens between two calls.
"""
