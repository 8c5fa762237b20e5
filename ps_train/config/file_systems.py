"""Check that fsspec, or TensorFlow, has the file systems of `--data_dir`, `--export_dir` and `--model_dir`.

It runs after the import of the user's model, which may import a package that adds file systems.
"""

from __future__ import annotations

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import missing_package, scheme_of
from ps_train.config.job import Job
from ps_train.config.job_values import described


def check_file_systems(job: Job) -> None:
    """Raises ConfigError for a path on a file system that is not there."""
    import tensorflow as tf  # late: `check_package` is called without it

    known = [scheme for scheme in tf.io.gfile.get_registered_schemes() if scheme]
    for name in ("data_dir", "export_dir"):
        scheme = scheme_of(getattr(job, name))
        if scheme and scheme not in known and (reason := missing_package(scheme)):
            raise ConfigError(
                f"{described(job, name)}: {reason}, and TensorFlow has only {', '.join(sorted(known))} here; or use a "
                "local path or a mounted bucket."
            )
    check_package(job)


def check_package(job: Job) -> None:
    """Raises ConfigError for a model_dir on a file system whose package of fsspec is not there."""
    scheme = scheme_of(job.model_dir)
    if scheme and (reason := missing_package(scheme)):
        raise ConfigError(f"{described(job, 'model_dir')}: {reason}; or use a local path or a mounted bucket.")
