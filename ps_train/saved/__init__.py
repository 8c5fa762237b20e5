"""Models on disk: checkpoints, deltas, exports and the scores of their rows, read and written without a cluster.

The idea: whatever a training leaves is files, and who works on files needs no ps, no session of a job and no chief.

Data structures: a `Saved` (`values.py`) is a checkpoint or SavedModel, whose variables are read in parts.  The rooms
say the rest: `deltas` between two of them, an `export` out of a checkpoint, a `warm_start` from another training,
`serving` in a program of the user, and `scoring` of files.

It does not know how a job trains, nor when it saves.
"""
