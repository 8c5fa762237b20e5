"""The status of a job: the board and its views, health, and the result of a run.

The idea: one board holds the state of the job, and everything else is a view of it: page, JSON, Prometheus, report,
health.  A slow reader delays no step.

Data structures: `Board` is the present state, `TaskBoard` the tasks in it, `History` its curves.  A `Rule` measures
one thing of the board, and has a limit and advice.  `RunSummary` is what remains of a run: `result.json`.

It does not ask the ps for anything: heartbeats and hooks bring the numbers.

Files:

    advice.py            Advice of the rules of health: the flag or the action that helps, for a value over its limit
    board.py             The board: the present state of a job in the chief, as `docs/WATCHING.md` describes it
    event_model.py       A small event model of a ps job: how many steps a second its workers make together
    health.py            Rules of health: each measures one thing, has a limit, and knows what to do about it
    launcher_events.py   Events that only the launcher of a cluster on one machine knows: faults on purpose, and
                           restarts
    measured_network.py  Throughput to each ps as the doctor has measured it, in a file of the model directory
    observer.py          The chief's observer: it keeps the board, serves the status page, and writes the report at
                           the end
    page.py              The status page: one HTML text that asks the chief for data, or a report of an ended job with
                           the data inside
    prometheus.py        The status of a job in Prometheus' text format, version 0.0.4
    result.py            The summary of a run that is over: its lines for the console and the content of result.json
    run_end.py           The end of a run: its metrics, result.json, and the lines that say how to go on with its
                           checkpoint
    stream_lag.py        Lag of data without an end: what is left to read of each partition, and whether it grows
    tasks.py             The tasks of a job as their heartbeats show them, for the status page
"""
