"""The graph of one replica: the training step, several steps in one call, and the evaluation.

The idea: a step is built once and then copied.  `train_step.py` joins the worker's part (batch, pull, forward,
backward, push) to the ps's part (variables and updates).  `unroll.py` copies its nodes, so that one call makes
several steps.

Data structures: `GraphSpec` is the input of the construction, `TrainStep` its result: a `WorkerStep`, a `PsStep`, and
the operations that a loop runs.  `Backward` is loss and gradients as means over all batches and towers of a push.  A
`Template` is a set of nodes to copy.  `EvalGraph` has the metrics of a model on its test data.

It does not know when a step is run, nor what happens between two calls.

Files:

    backward.py      Forward and backward pass: builds the model with the pulled values in the place of its variables
    copied_nodes.py  Copies of nodes of a graph that wait for gates
    effects.py       Search for operations with side effects, which must run in the order of the steps, and of a
                       step's towers
    evaluation.py    The graph that evaluates the values on the ps: test data, values, rows, metrics
    forward.py       Substitution of a model's variables and lookups by values and rows that are already on the worker
    front.py         The front of a step: the part that reads the batch, finds its ids, and pulls values and rows
    label_values.py  Check of the labels of a binary cross-entropy in the first steps: they must be 0 to 1
    metric_sums.py   Totals of a model's metrics, put together over the shards of the test data
    slices.py        Metrics of parts of the test data, one for each frequent value of a field
    model_hooks.py   The hooks of every worker: those of the user's model, and the one that dynamic sharding needs
    ps_state.py      The variables on the ps that one replica's graph uses
    ps_step.py       The ps's part of a training step: the update, and all variables there that it makes
    spec.py          Specification of the graph of one replica
    summaries.py     The summaries that a model makes itself in forward() and loss(), with `tf.compat.v1.summary`
    towers.py        The devices among which one worker divides its batches: its towers
    train_step.py    The training graph of one replica: batch, pull, forward, backward, push, update
    unroll.py        Several steps in one `session.run`: copies of the step's nodes, one after the other
    worker_step.py   The worker's part of a training step: batch, pull, forward, backward, gradient transforms, push
"""
