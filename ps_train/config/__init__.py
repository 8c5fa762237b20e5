"""The Job: one frozen value that describes a run, the flags that it is read from, and the checks of its values.

The idea: flags are read once and become a value.  Below this subsystem no module knows absl, flagfiles or environment
variables, and every process of a run has an equal `Job`.

Data structures: `Job` is a frozen dataclass whose fields carry their help text, their check and whether all tasks
must agree on them.  `Task` names one process of the job.  `ParsedFlags` is a `Job` and a `Task` with the source of
each value, which errors name.

It does not know what the values do.  A check of one value stands with its field, a check of several in
`validation.py`.

Files:

    batch_sizes.py          Values of --batch_size: one number of examples, or two bounds between which it follows the
                              network
    cluster_fields.py       Fields of the Job about processes: the cluster, a cluster on one machine, and timeouts
    codec_spec.py           The text of --pull_codec and --push_codec: the names of codecs, joined by a comma
    error_report.py         Errors of this process: for the `ps_train.fit` that started it, and for a file of
                              --log_dir
    fault_spec.py           Faults requested with --inject_fault, which show how a job behaves when they happen
    fields.py               Dataclass fields that are flags: their metadata hold help, check and sharing of the value
    file_systems.py         Check that TensorFlow has the file systems of `--data_dir` and `--export_dir`
    flagfile.py             Flagfiles: one flag a line, each with the file and line where it stands
    flags.py                Conversion of the command line, flagfiles and TF_CONFIG to a Job and a Task
    job.py                  The Job: one frozen, validated value that describes a run completely
    job_values.py           All fields of the Job, and the values that follow from several of them
    metric_rule.py          Metrics as flags name them, and which of two values is better
    model_arguments.py      The model's path and the arguments of its constructor, as `--model` and `--model_arg` give
                              them
    optimizer_arguments.py  The optimizers that --optimizer names, with their arguments, defaults and checks, for
                              --optimizer_arg
    output_fields.py        Fields of the Job about what a process writes and uses: checkpoints, logs and devices
    paths.py                Paths in flags: `~` is expanded, and an address of another file system is not taken for a
                              local directory
    slice_names.py          Names of metrics of a part of the test data (--eval_by)
    tf_config.py            Parser of clusters described in JSON: the environment variable `TF_CONFIG`, and the file
                              of --cluster_file
    trackers.py             Experiment trackers (--track): the check that the package is there, and what the
                              environment tells the chief
    training_fields.py      Fields of the Job about the training itself: model, data, steps, updates and gradients
    validation.py           Checks of combinations of a job's values, where each value alone is allowed
    validators.py           Checks of single values, each with a description of the allowed values
    verbs.py                The verbs of `python -m ps_train`: the programs beside the training, each with the
                              function that runs it
    wait_limits.py          Values of --max_steps_ahead and --backup_workers: one number, or bounds between which it
                              follows the stragglers
"""
