"""A model's variables: found in a scratch graph, planned, created on their ps, initialized.

The idea: a model is ordinary code, so its variables are found by running it once.  `trace.py` builds it in a scratch
graph, `plan.py` places what it made, `variables.py` creates that on the ps, and `user_variables.py` is the one source
of variables in every graph, so names and collections are the same.

Data structures: `ModelVariables` is the result of the trace, `Plan` the place of each `Slice` of each variable.  A
`ModelVariable` is a pulled value with a variable's interface.  `SeededGraph` gives all random operations of a model
numbers of their own.

It does not know steps or updates.  `mutex.py` and `call_started.py` are here because every change of a variable needs
them.
"""
