"""A compiled Keras model as a model of the engine.

The idea: the graph travels, not the model.  Keras code runs once, eagerly, in the process that has the model: it
traces `model.train_step` for one batch (`traced_step.py`) and the optimizer's update of each variable (`rules.py`).
The traces are GraphDefs with numpy values.  Every worker imports the step into its training graph, every ps imports
the updates.

Data structures: `PortableGraph`, a traced function with what it reads and writes; `TracedStep`, a step with the role of
each variable; `UpdateRules`, the optimizer.

A variable has one of four roles.  A trained one has a gradient, and its value is pulled.  A state is assigned by the
step, as a moving average: it is worker 0's.  A sum is a metric's: the workers' parts of it are added up.  A fixed one
is only read: each worker reads it once.

It knows nothing of ps, workers or callbacks, and only what traces imports Keras.
"""
