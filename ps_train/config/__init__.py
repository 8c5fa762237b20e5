"""The Job: one frozen value that describes a run, the flags that it is read from, and the checks of its values.

The idea: flags are read once and become a value.  Below this subsystem no module knows absl, flagfiles or environment
variables, and every process of a run has an equal `Job`.

Data structures: `Job` is a frozen dataclass whose fields carry their help text, their check and whether all tasks
must agree on them.  `Task` names one process of the job.  `ParsedFlags` is a `Job` and a `Task` with the source of
each value, which errors name.

It does not know what the values do.  A check of one value stands with its field, a check of several in
the table of `refusals.py`.
"""
