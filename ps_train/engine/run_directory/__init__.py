"""The model directory of a run: its checkpoints, its record, the files beside them, and the store that they go to.

The idea: a checkpoint counts if the record of the run knows its generation.  So checkpoints of a chief that was
replaced, and those of another run in the same directory, are told apart by their names alone.

On an object store the model directory has a spool, a local directory in which a task works.  `ChiefUploads` takes
whole checkpoints from there to the store, in threads of its own.

Data structures: `RunRecord` is the id of a run and its generations.  `RunFiles` are what a run leaves, by their names.

It does not know how a checkpoint is taken: that is `engine/checkpoint`.  Decisions 0041 and 0045 have the rules.
"""
