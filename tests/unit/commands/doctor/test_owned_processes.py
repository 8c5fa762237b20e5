"""The doctor's processes and directories are gone at its end."""

from __future__ import annotations

import os
import subprocess
import sys

from ps_train.commands.doctor.owned_processes import Children, children_of, cpu_secs_of
from tests.support.processes import is_alive


def test_children_and_directories_are_gone_at_the_end():
    with Children() as children:
        directory = children.directory()
        child = children.start(["http.server", "0", "--bind", "127.0.0.1"], os.environ)
        assert os.path.isdir(directory) and is_alive(child.pid)
        assert child.pid in children_of(os.getpid())
    assert not os.path.exists(directory) and not is_alive(child.pid)


def test_cpu_time_is_that_of_the_process():
    busy = subprocess.Popen([sys.executable, "-c", "sum(range(10**7)); print('done', flush=True); input()"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert busy.stdout is not None and busy.stdout.readline() == "done\n"
        assert 0.05 < cpu_secs_of(busy.pid) < 60
    finally:
        busy.kill()
        busy.wait()
    assert cpu_secs_of(busy.pid) == 0
