"""Check that TensorFlow has the file systems of `--data_dir` and `--export_dir`.

It runs after the import of the user's model, which may import a package that adds file systems.
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.paths import TENSORFLOW_PATHS, package_of, scheme_of


def check_file_systems(job: Job) -> None:
    """Raises ConfigError for a path on a file system that TensorFlow does not have."""
    known = [scheme for scheme in tf.io.gfile.get_registered_schemes() if scheme]
    for name in TENSORFLOW_PATHS:
        scheme = scheme_of(getattr(job, name))
        if scheme and scheme not in known:
            raise ConfigError(
                f"{described(job, name)}: TensorFlow has no file system {scheme}:// here, only "
                f"{', '.join(sorted(known))} ({package_of(scheme)}); or use a local path or a mounted bucket."
            )
