"""Scoring: predictions of exported models for files, and the comparison of two models.

The idea: the files are cut into parts, always the same ones, and a part becomes chunks of the result.  A chunk has its
name when it is complete.  So any number of processes work on a command, and the same command goes on with it.

Data structures: a `DataSpec` names files, and `Data` gives their rows part by part.  A `Plan` is a command, and a
`Scoring` has its model, its data and the format of its result.

It does not know training, jobs or checkpoints.

Files:

    compare.py      The verb `compare`
    file_rows.py    Rows of Parquet files and of TFRecord files
    formats.py      Names of formats, and of files of each
    model_rows.py   Rows that a model's own `data` reads
    opened_data.py  The rows that the flags of a command name
    predict.py      The verb `predict`
    results.py      Results in any format, from chunks of Arrow
    resumable.py    Predictions for files, in chunks that become the result
    rows.py         Rows for a model and for a result, and the values of features
    statistics.py   Numbers of two models on the same rows, with intervals of their differences
    text_rows.py    Rows of csv, tsv and jsonl
"""
