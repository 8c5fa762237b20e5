"""A compiled Keras model as a source of a step's gradients and of update rules.

The idea: the graph of a step travels to the other processes, and the model stays in the calling process.

It does not know the user's program, nor how a fit drives its callbacks.
"""
