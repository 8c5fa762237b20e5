"""A model_fn on the engine: surveyed, its optimizers recorded, and handed on as a model.

The idea: the program's `model_fn` is called as it is, while two methods of TensorFlow's optimizers record instead of
act.  A survey builds it once in a graph that is never run, and says what the engine could not do in its place.

Data structures: a `Program` is a model_fn with its input and settings.  A `Survey` is the findings about it.
`AppliedGradients` is one recorded call, a `Group` the variables of that call.  `CapturedModel` is the model for the
engine.

The engine does not know that a model was captured.  A `CaptureError` says in one line why a program is not; decision
0026.
"""
