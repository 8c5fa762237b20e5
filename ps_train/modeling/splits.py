"""The splits of a job's data, as a task loads them.

source = training_source(model, job)
data = source.get()
"""

from __future__ import annotations

import logging
from typing import Any

from ps_train.config.job import Job
from ps_train.data.pipeline import DataSource
from ps_train.data.split import Split, number_of
from ps_train.modeling.model import Model

log = logging.getLogger(__name__)


def training_source(model: Model, job: Job) -> DataSource:
    """Returns the training split."""
    split = Split("train", job.data_dir, job.min_batch_size, job.epochs, job.is_dynamic)
    return DataSource(lambda: model.data("train", job.data_dir), job.max_bad_lines, split)


def test_source(model: Model, job: Job) -> DataSource:
    """Returns the test split."""
    split = Split("test", job.data_dir, job.min_batch_size)
    return DataSource(lambda: model.data("test", job.data_dir), job.max_bad_lines, split)


def warn_if_empty(source: DataSource, data: Any) -> None:
    """Warns of a test split that is known to have no examples."""
    if number_of(data) == 0:
        log.warning("%s has no examples: the model will not be scored; check --data_dir", source.name)
