"""The data of a fit: whole batches that every process of a job can read, in one order.

`sent_data.py` has the two public names: the process that calls `fit` makes the data with the function `sent_data`, and
writes them into a directory; the processes that it starts read them with `SentData.read`.

The idea: batches have numbers, counted over all epochs, and every process sees the same batches under the same numbers.
A synchronous worker takes its part of each batch, an asynchronous one every count-th batch.

| kind of data | file | what travels |
|---|---|---|
| arrays, and `ps_train.Arrays` | `array_source.py` | files that are mapped into memory |
| `tf.data.Dataset` | `dataset_source.py` | its graph |
| `keras.utils.PyDataset` | `indexed_source.py` | the pickled object |
| a function that makes data | `made_source.py` | the pickled function |
| `ps_train.Stream` | `stream_source.py` | the pickled object |

It does not know models, workers' sessions or update modes.
"""
