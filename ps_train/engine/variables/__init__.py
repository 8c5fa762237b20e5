"""A model's variables: found in a scratch graph, planned, created on their ps, initialized.

The idea: a model is ordinary code, so its variables are found by running it once.  `trace.py` builds it in a scratch
graph, `plan.py` places what it made, `variables.py` creates that on the ps, and `user_variables.py` is the one source
of variables in every graph, so names and collections are the same.

Data structures: `ModelVariables` is the result of the trace, `Plan` the place of each `Slice` of each variable.  A
`ModelVariable` is a pulled value with a variable's interface.  `SeededGraph` gives all random operations of a model
numbers of their own.

It does not know steps or updates.  `mutex.py` and `call_started.py` are here because every change of a variable needs
them.

Files:

    assigned_variables.py  Search for the variables that a model assigns itself in forward() or loss(): moving
                             averages, counters
    call_started.py        Start signals that keep a call from changing anything before all its tasks have begun
    copied_functions.py    Copies of the functions that a step calls (branches, loop bodies, `tf.function`s), with
                             different random numbers
    custom_gradients.py    Check of functions with a custom gradient: they must take the variables that they use as
                             arguments
    given_names.py         Names that code gives to its variables, wherever in a graph it is called
    global_step.py         Replacement of the tensor that `tf.compat.v1.train.get_global_step()` returns
    initial_tensor.py      Initial values that a model gives as tensors, copied so that another graph can compute them
    initialization.py      Initialization of the variables on a ps, in chunks where they are large
    model_variable.py      The object that a model is given for a trained variable: the pulled value with a variable's
                             interface
    mutex.py               The mutex of a ps, under which updates are made one at a time
    old_rows.py            Old values of the rows of large tables, kept on their ps while a checkpoint is written (copy
                             on write)
    pairwise_shapes.py     Check for shapes that broadcast a batch against itself: [batch, 1] with [batch] gives
                             [batch, batch]
    plain_graph.py         A model built in one process with ordinary variables, to score or export a checkpoint
    plan.py                Placement of variables on the ps: greedy by bytes, large variables cut into slices along
                             their first dimension
    precision.py           Precision of sums: values of a dtype below 32 bits are added up, squared and divided as
                             float32
    seeded_graph.py        A graph in which all random operations of a model draw different numbers, in functions too
    trace.py               The variables of a model, found by building the model once in a scratch graph
    user_variables.py      One source for all variables of a model: get_variable, tf.Variable and Keras layers
    variable_uses.py       Marks of how a model uses each variable, by which two processes see that their names mean
                             other variables
    variables.py           The variables of a plan on their ps: ordinary TensorFlow variables, one for each slice
    worker_state.py        The state that a model keeps on each worker: lookup tables and local variables
"""
