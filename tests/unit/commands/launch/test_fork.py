"""Children that are copies of a process, in a process of their own because a test runner has threads."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[4]
BEGINS = """
import json, os, signal, sys, threading, time
from ps_train.commands.launch.fork import ForkedProcess, can_fork
def begin(work, environment=None, kept=()):
    return ForkedProcess(work, {**os.environ, **(environment or {})}, kept)
def show(found):
    print(json.dumps(found), flush=True)
"""


def shown_by(script: str) -> object:
    """What it printed, as JSON."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", BEGINS + script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_prints_into_its_two_pipes_and_ends_with_what_its_work_returned() -> None:
    script = """
def work():
    print("out")
    os.write(2, b"err\\n")
    print(os.environ.get("GIVEN"), os.environ.get("KEPT"), os.getsid(0) == os.getpid())
    return 7
os.environ["KEPT"] = "here"
child = ForkedProcess(work, {"GIVEN": "1"}, [])
out, err = child.stdout.read().splitlines(), child.stderr.read().splitlines()
show([out, err, child.wait(), child.poll(), child.poll(), "GIVEN" in os.environ])
"""
    assert shown_by(script) == [["out", "1 None True"], ["err"], 7, 7, 7, False]


def test_an_exception_is_printed_and_does_not_go_on_in_the_code_of_the_parent() -> None:
    script = """
parent = os.getpid()
def work():
    raise ValueError("in the child")
try:
    child = begin(work)
finally:
    assert os.getpid() == parent or print("the child is here")
show([child.stdout.read(), child.stderr.read().splitlines()[-1], child.wait()])
"""
    assert shown_by(script) == ["", "ValueError: in the child", 1]


def test_it_has_no_descriptor_but_those_that_it_keeps() -> None:
    script = """
read, write = os.pipe()
kept, other = os.pipe()
first = begin(lambda: time.sleep(60))
def work():
    print(sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")))
    return 0
child = begin(work, kept=[kept])
found = json.loads(child.stdout.read())
first.send(signal.SIGKILL)
show([found == [0, 1, 2, kept], first.wait()])
"""
    assert shown_by(script) == [True, -9]


def test_its_standard_input_ends_with_the_parent_although_another_child_lives() -> None:
    script = """
def parent():
    def work():
        os.read(0, 1)
        os.write(int(os.environ["SAY"]), b"end of input")
        return 0
    begin(work, {"SAY": str(say)}, kept=[say])
    begin(lambda: time.sleep(20))
    return 0
heard, say = os.pipe()
begin(parent, kept=[say]).wait()
show(os.read(heard, 100).decode())
"""
    assert shown_by(script) == "end of input"


def test_signals_are_not_heard_by_the_handlers_of_the_parent() -> None:
    script = """
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
children = [begin(lambda: time.sleep(60)) for _ in range(20)]
for child in children:
    child.send(signal.SIGTERM)
codes = [child.wait() for child in children]
interrupted = begin(lambda: time.sleep(60))
interrupted.send(signal.SIGINT)
last = interrupted.stderr.read().splitlines()[-1]
os.kill(os.getpid(), signal.SIGTERM)
show([set(codes) == {-15}, interrupted.wait(), last, heard])
"""
    assert shown_by(script) == [True, 1, "KeyboardInterrupt", [1]]


def test_several_threads_may_wait_for_its_end() -> None:
    script = """
codes = []
for _ in range(20):
    child = begin(lambda: 3)
    threads = [threading.Thread(target=lambda: codes.append(child.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    codes.append(child.wait())
    for thread in threads:
        thread.join()
show([len(codes), list(set(codes))])
"""
    assert shown_by(script) == [100, [3]]


def test_a_process_with_threads_is_not_copied() -> None:
    script = """
found = [can_fork()]
end = threading.Event()
thread = threading.Thread(target=end.wait)
thread.start()
found.append(can_fork())
end.set()
thread.join()
show([*found, can_fork()])
"""
    assert shown_by(script) == [True, False, True]


def test_a_function_that_runs_in_a_fork_gives_its_code_and_both_of_its_outputs() -> None:
    script = """
from ps_train.commands.launch.fork import run_forked
def work():
    print("first")
    os.write(2, b"second\\n")
    return 7
show(run_forked(work, dict(os.environ), lambda: False))
"""
    assert shown_by(script) == [7, "first\n", "second\n"]


def test_a_function_in_a_fork_is_killed_when_it_is_no_longer_wanted() -> None:
    script = """
from ps_train.commands.launch.fork import run_forked
asked = []
began = time.monotonic()
code, *_ = run_forked(lambda: time.sleep(60), dict(os.environ), lambda: asked.append(1) or len(asked) > 2)
show([code, time.monotonic() - began < 30])
"""
    assert shown_by(script) == [-9, True]
