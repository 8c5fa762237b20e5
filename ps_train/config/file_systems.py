"""Check that TensorFlow or fsspec has the file systems of `--data_dir` and `--export_dir`.

It runs after the import of the user's model, which may import a package that adds file systems.
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import missing_package, scheme_of
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.paths import REMOTE_PATHS


def check_file_systems(job: Job) -> None:
    """Raises ConfigError for a path on a file system that is not there."""
    known = [scheme for scheme in tf.io.gfile.get_registered_schemes() if scheme]
    for name in REMOTE_PATHS:
        scheme = scheme_of(getattr(job, name))
        if scheme and scheme not in known and (reason := missing_package(scheme)):
            raise ConfigError(
                f"{described(job, name)}: {reason}, and TensorFlow has only {', '.join(sorted(known))} here; or use a "
                "local path or a mounted bucket."
            )
