"""Keras programs: `fit` of a compiled model as a job of ps and workers.

The idea: the process that calls `fit` is the chief.  It has the model and the callbacks, so neither has to travel; the
traced step and the data do.  It trains as every worker does, in a thread, and runs callbacks in its main thread at the
ends of epochs, when all workers are at rest.

Data structures: `FitCall`, what a call asks for; `EpochDriver`, Keras's callbacks over the job; `KerasCluster`, which
moves values between the ps and the model.

It knows nothing of graphs: `modeling/keras` has them.
"""
