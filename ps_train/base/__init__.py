"""This process and its machine: parts that every other subsystem may use, and that know nothing of training.

The idea: facts about a process (its console, signals, memory, errors, addresses) are asked for in one place each, so
that the rest of the package reads them as values.  Most modules need only the standard library, so `--help` and a
wrong flag are answered without TensorFlow.

Data structures: `PsTrainError` and its subclasses carry the exit code of a failure.  A `Console` owns the two output
streams and the progress line.  `ProcessStats` is one reading of CPU time, memory and bytes.

It does not know jobs, clusters, models or graphs.  `private_tf.py` is the only module that uses private names of
TensorFlow, with a test for each.

Files:

    bounds.py              A whole number, or two bounds between which it follows a measurement
    command_parser.py      The parser of a command that has flags of its own: its errors are one line
    console.py             Console output: lines, and one progress line that a terminal overwrites in place
    deprecations.py        TensorFlow's warnings of deprecated names: shown once for a cluster, by its chief
    errors.py              The errors that ps_train raises deliberately, and their exit codes
    event_file.py          A file in which the launcher tells the chief of its own events: faults on purpose, and
                             restarts
    gc_control.py          Control of Python's garbage collector, which would slow down the start
    graph_names.py         Names of a graph as TensorFlow 1 has them: the tensor `NAME:0` of a variable is its value
    hidden_modules.py      Names a user's file that hides a module of Python, or an installed one, from the library
                             that needs it
    http_server.py         A small HTTP server for the status page and for probes
    lifecycle.py           Lifecycle events of a job, such as a lost worker or a saved checkpoint, beside its newest
                             log lines
    lost_outputs.py        Outputs that the user asked for and that could not be written: told at once, and by the
                             exit code at the end
    malloc.py              Tuning of glibc's malloc: it keeps the memory that a step frees for the next step
    network_interfaces.py  The addresses of this machine's network interfaces, and the refusal to serve at a public
                             one
    polling.py             Polling of a condition, with a deadline and a pause; lines about a call that takes long
    private_tf.py          Private names of TensorFlow, and of Keras: each one that the package uses, although it is
                             not public API
    process_ids.py         Process identity across machines: a pid means something only within its host, boot and PID
                             namespace
    process_stats.py       Resources that this process uses: CPU time, memory, and bytes over its TCP connections
    remote_files.py        Files at addresses such as `s3://bucket/name`, through fsspec and the package that it
                             names for each kind
    side_work.py           Work beside training that may fail and is tried again
    signals.py             Events of a task's main thread, which waits for signals while a second thread trains
    tcp_connections.py     The open TCP connections of this process
    tf_import.py           The import of TensorFlow, without its messages and without Keras
    unsaved_key.py         Keys of graph collections that stay in their process
    untrusted.py           Input from outside of this process, read as data: bounded in size, depth and time, and
                             never executed
    user_code.py           The user's part of an error: the frames of the user's own code, and the operation that
                             failed
    whole_file.py          Files and directories that appear whole: written beside their place, then renamed to it
"""
