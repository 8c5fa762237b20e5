"""`--dry_run`: the report of a warm start, without any cluster.

The training graph is built as the chief builds it, since the slots of the optimizer are known only then.
"""

from __future__ import annotations

from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.cluster.sessions.server import device_of
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.engine.variables.trace import trace
from ps_train.modeling.load_model import load_model, use_flags
from ps_train.modeling.splits import training_source
from ps_train.training.joining.prepare import step_to_show
from ps_train.training.joining.warm_starts import find_warm_start


def dry_run(job: Job, console: Console) -> int:
    """Prints the report of a job's warm start; returns the exit code.

    Raises:
      PsTrainError: the errors of the job itself.
    """
    cluster = Cluster.of(with_local_hosts(job))
    model = load_model(job.model, job.model_arguments(), job.sources)
    use_flags(model, job)
    check_file_systems(job)
    source = training_source(model, job)
    variables = trace(model, source, job.min_batch_size, job.seed)
    found = find_warm_start(job, model, variables, job.model_dir)
    if not found:
        console.line(
            f"{job.model_dir} has checkpoints: the run resumes, and {described(job, 'warm_start')} is not used"
        )
        return EXIT_DONE
    _, step = step_to_show(job, cluster, model, source, variables)
    with step.graph.as_default():
        warm = found[0].made(job, step.ps.entries, device_of(cluster.chief, cluster))
    for line in warm.report().splitlines():
        console.line(line)
    return EXIT_DONE
