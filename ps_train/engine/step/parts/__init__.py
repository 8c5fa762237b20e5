"""The features of a step, each in one part.

The idea: a plain step is a few functions, one for each word of its life: `layout`, `batches`, `pull`, `compute`,
`push`, `update` and `calls`.  A part wraps those that it changes, each by a function around the next part's.  So a
feature is read in one file, in the order in which a step runs, and the plain step knows none of them.

Data structures: `StepPart` (`step_part.py`) has the words, and what is handed from one to the next.  `order.py` has the
parts that a job asks for, their order, and the reason of each place.
"""
