"""Checkpoints: consistent at one global step, written while workers train, restored into any number of ps.

The idea: a checkpoint is the state at one global step.  The chief holds all pushes while a snapshot is taken: each ps
copies its small variables, and marks its large tables, whose rows updates then keep before they change them.  Threads
write the snapshot, in TensorFlow's format, while training goes on.

On an object store the model directory has a spool, a local directory in which a task works.  `ChiefUploads` takes
whole checkpoints from there to the store.

Data structures: `PushBarrier` holds the pushes of all workers.  A `Snapshot` has `ShadowCopies` and the old rows of
tables.  A `Chunk` is a group of small variables, or rows of large ones, that one call moves.  `RunRecord` is the id of
a run and its generations, which say what checkpoints count.

It does not decide when to save, except in the hook that asks whether a checkpoint is due.  The decisions are 0005,
0015, 0041 and 0045.

Files:

    async_saver.py      Saver that takes checkpoints of one global step while workers train
    checkpoint_copier.py  The variables of a SavedModel, copied from a checkpoint part by part
    chunked_io.py       Reading and writing of stored variables in chunks of bounded size
    coded_rows.py       Rows of tables in fewer bytes in an export: int8 with a scale for each row, or bfloat16
    contents.py         Contents of a checkpoint: the shape and dtype of each key, and its values for a plain graph
    deltas/             Deltas: the exact difference of two checkpoints or SavedModels, and the way back
    event_cuts.py       The checkpoints that are cuts of a stream by event time, and the file of model_dir by which
                          users find them
    export.py           Export of the trained model as a SavedModel, which serves without this package
    directory_probe.py  Probe of the chief's directory by each ps: may it read and write files there?
    files.py            Checkpoint files, which the chief and the ps write and read for any number of ps
    fingerprint.py      The fingerprint of a SavedModel: its graph, its variables and its step
    glob_free.py        Paths of checkpoints for TensorFlow's readers, which take a path for a pattern
    initial_values.py   Initial values that the chief sends to the ps, because only it may have them
    parallel_calls.py   Calls of a session that several threads make side by side
    pinned.py           Checkpoints that a reader keeps while the run removes its own
    push_barrier.py     Barrier that holds the pushes of all replicas, on all ps, at a moment when no update is half
                          applied
    run_checkpoints.py  The checkpoints of a run, by the one rule that every reader uses
    run_files.py        Files of a run beside its checkpoints: the id of the run, and what is moved with a run that is
                          ignored
    run_record.py       Record of a run: its id, and the steps at which its generations began
    save_hook.py        The chief's periodic checkpoints: one at the start, then one every few steps or seconds
    save_listeners.py   The user's listeners of checkpoints, `tf.compat.v1.train.CheckpointSaverListener` objects
    saving_graph.py     The graph that saves and restores, which has the stored variables, and not the step
    save_watcher.py     Thread of the chief that begins checkpoints between the chief's own steps
    shadow_copies.py    Second copies of stored variables, each on the ps of its original
    snapshot.py         State of one moment, which is written to a checkpoint while updates go on
    split_tables.py     Tables of an export in parts: rows in sorted shards, and a graph that takes rows as inputs
    spool.py            Spool of a model directory on an object store: the local directory in which a task works instead
    warm_start/         Warm start: the variables of a new job begin with the values of another training
    uploads.py          Uploads from a spool to the model directory on an object store
"""
