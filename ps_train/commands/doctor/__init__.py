"""The doctor: checks of a host and of the way to the others, before a job is started.

The idea: every check is one function that gives findings, each is shown at once, and a later check uses what an
earlier one has found.

Data structures: a `Finding` is one line with a level.  `HostFacts` are limits of this machine.  `PlannedJob` is a
plan with its bytes.  A `PsMeasurement` is what was measured of the way to one ps.

It leaves nothing behind, except for the measured throughput in the model directory.

Files:

    command.py          Checks this host, and the way to the others, before a job is started: `python -m ps_train
                          doctor`, flags of the job
    findings.py         Findings of the doctor: one line each, and the exit code that follows from them
    host.py             Facts about this machine, and the doctor's findings about them
    measured.py         Findings about the measurements of a ps
    network.py          Checks of names, addresses and ports from this machine, without TensorFlow
    options.py          The doctor's own flags, as a value
    owned_processes.py  Child processes of the doctor, which end with it
    plan.py             The plan of a job with its sizes: state and memory of each ps, memory of a worker, size of a
                          checkpoint
    racks.py            The ways inside a rack and between racks, as measured, and the bytes that racks save there
    run.py              The doctor's visit: all checks of one host in their order, each finding shown at once
    transport.py        Measurements of each ps over TensorFlow's own transport: round trip, throughput both ways,
                          clock, versions
    wire.py             Bytes that a step pulls and pushes, and their time on the measured network
"""
