"""A model_fn on the engine: surveyed, its optimizers recorded, and handed on as a model.

The idea: the program's `model_fn` is called as it is, while two methods of TensorFlow's optimizers record instead of
act.  A survey builds it once in a graph that is never run, and says what the engine could not do in its place.

Data structures: a `Program` is a model_fn with its input and settings.  A `Survey` is the findings about it.
`AppliedGradients` is one recorded call, a `Group` the variables of that call.  `CapturedModel` is the model for the
engine.

The engine does not know that a model was captured.  A `CaptureError` says in one line why a program is not; decision
0026.

Files:

    batches.py              The batches of an input_fn, used as they come
    captured_model.py       A model_fn as a model of the engine
    captured_training.py    The tasks of an Estimator program on the engine: chief, worker and ps
    counted_step.py         The global step that a model_fn is given
    hyperparameters.py      An optimizer's hyperparameters, made again on each ps from that ps's own step
    job_of_config.py        The job that a RunConfig describes
    local_cluster.py        A cluster of one ps and one worker inside this process, for a program without a cluster
    made_variables.py       Record of the variables that a model_fn makes, and of what the engine would find in a trace
    program.py              The parts of an Estimator program that the engine needs
    recorded_optimizers.py  Record of the gradients that a model_fn computes and applies, in place of its optimizers
    row_variable.py         The object that a model_fn is given for a variable of which it only looks up rows
    savers.py               The savers of a model_fn, which the engine replaces
    sessions.py             Graphs and sessions of an Estimator's calls: each call has new ones
    survey.py               Survey of a program: its model is built once, as TensorFlow itself would build it
    tensor_shapes.py        The form of tensor shapes: `shape[0]` is a number, or in programs for TensorFlow 1 an
                              object with a `value`
    uncaptured_training.py  Training of a program that cannot be captured: it trains as a raw script does
"""
