"""The flags of a sample."""

from __future__ import annotations

from ps_train.commands.doctor.sample import sample_arguments
from ps_train.config import flags


def test_the_sample_is_the_job_with_few_tasks_and_without_an_end():
    given = ["--ps_hosts=a:1", "--worker_hosts=b:1,c:1", "--job_name=worker", "--task_index=1", "--update=sync"]
    given += ["--batch_size=8", "--model_dir=/mine", "--max_steps=5", "--epochs=2", "--model_arg=hidden=3"]
    parsed = flags.parse([*given, "--export_dir=/out", "--early_stop=auc:3"], {})
    sample = flags.parse(sample_arguments(parsed.job, parsed.given, 1, 2, "/tmp/x"), {})
    assert (sample.job.num_ps, sample.job.num_workers, sample.job.model_dir) == (1, 2, "/tmp/x")
    assert (sample.job.update, sample.job.batch_size, sample.job.model_arg) == ("sync", 8, ("hidden=3",))
    assert sample.job.max_steps > 10**6 and sample.job.epochs == 0 and not sample.job.ps_hosts
    assert not sample.job.export_dir and not sample.job.early_stop and sample.task.job_name == "local"


def test_the_workers_of_a_sample_are_the_ps_where_those_of_the_job_are():
    for given in ("--ps_on_workers", "--num_ps=0"):
        parsed = flags.parse([given, "--num_workers=4"], {})
        sample = flags.parse(sample_arguments(parsed.job, parsed.given, 2, 2, "/tmp/x"), {})
        assert sample.job.ps_on_workers and (sample.job.num_ps, sample.job.num_workers) == (0, 2)
