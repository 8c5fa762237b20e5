"""Signals are heard whichever thread the kernel gives them to."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os, queue, signal, sys, threading, time
from ps_train.base.signals import MainThreadEvents

attention = MainThreadEvents()
idle = threading.Thread(target=time.sleep, args=[60], daemon=True)
idle.start()

def later():
    time.sleep(0.3)  # the main thread waits by then
    {action}

threading.Thread(target=later, daemon=True).start()
attention.wait()
print("signal", attention.signum, "verdict", attention.terminal_error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("signal.pthread_kill(idle.ident, signal.SIGINT)", "signal 2 verdict None"),
        ("signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)", "signal 15 verdict None"),
        ("attention.set_terminal_error(ValueError('bad'))", "signal None verdict bad"),
        ("attention.wake()", "signal None verdict None"),
        (
            # Woken by the second one only, so that it is too late to look between the two.
            "attention.wake = int; attention.set_terminal_error('first'); del attention.wake; "
            "attention.set_terminal_error('second')",
            "signal None verdict first",
        ),
    ],
)
def test_the_main_thread_wakes(action: str, said: str) -> None:
    program = textwrap.dedent(PROGRAM).format(action=action)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert run.stdout.strip() == said, run.stderr
