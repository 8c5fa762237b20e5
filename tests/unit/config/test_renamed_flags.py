"""An old name of a flag is refused with its new name."""

from __future__ import annotations

import pytest

from ps_train.config import flags
from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.errors import ConfigError


def refusal(arguments):
    with pytest.raises(ConfigError) as caught:
        flags.parse(arguments, {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


RENAMED = {
    "--staleness=2": "--max_steps_ahead",
    "--staleness_lr": "--divide_lr_by_staleness",
    "--nostaleness_lr": "--divide_lr_by_staleness",
    "--recovery_secs=3": "--recovery_timeout_secs",
    "--worker_lease_secs=3": "--heartbeat_timeout_secs",
    "--snapshot_mb=3": "--max_snapshot_mib",
    "--async_save": "--max_snapshot_mib=0",
    "--noasync_save": "--max_snapshot_mib=0",
    "--clocks_dir=a": "--timeline_dir",
    "--inject=kill:ps:0@1": "--inject_fault",
    "--restart=on_failure": "--max_restarts=3",
    "--elastic": "--max_workers=16",
}


@pytest.mark.parametrize("old", RENAMED)
def test_the_old_name_of_a_flag_is_refused_with_its_new_name(old, flagfile):
    name = old.partition("=")[0]
    assert f"{name} (from the command line) has a new name: use {RENAMED[old]}" in refusal([old])
    file = flagfile("# the first line", old)
    assert f"{name} (from {file.partition('=')[2]}:2) has a new name" in refusal([file])


def test_the_new_name_of_each_flag_exists():
    names = {field.name for field in job_fields(Job)}
    assert {new.removeprefix("--").partition("=")[0] for new in RENAMED.values()} <= names
    assert not {old.removeprefix("--").partition("=")[0].removeprefix("no") for old in RENAMED} & names
