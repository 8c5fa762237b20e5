"""Pages are taken apart as their authors mean, and what is wrong with one is found."""

from __future__ import annotations

import pytest

from tests.pages.blocks import blocks_of, masked, missing_lines
from tests.pages.commands import commands_of, problems_of
from tests.support.documents.public_names import names_in_source, private

PAGE = """
# A page

```bash
python -m ps_train --max_steps=5
```

```text
step 5/5
```

<!-- run: long, exit=2 -->
```python
# net.py
x = 1
```

1. In a list:
   <!-- not run: needs Kubernetes -->
   ```bash
   kubectl
   ```

<!-- fragment -->
```python
ps_train.fit(model)
```
"""


def test_blocks_have_their_output_their_file_and_how_they_are_run():
    command, program, inner, fragment = blocks_of(PAGE)
    assert (command.text, command.output, command.line) == ("python -m ps_train --max_steps=5\n", ("step 5/5",), 4)
    assert (program.file, program.is_long, program.exit_code) == ("net.py", True, 2)
    assert (inner.text, inner.why_not_run) == ("kubectl\n", "needs Kubernetes")
    assert fragment.is_fragment and not fragment.file


@pytest.mark.parametrize(
    "directive", ["<!-- run: quickly -->", "<!-- not run -->", "<!-- not run: -->", "<!-- runs: long -->"]
)
def test_a_directive_that_means_nothing_is_refused(directive):
    with pytest.raises(ValueError, match="line 2"):
        blocks_of(f"{directive}\n```bash\nls\n```\n")


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        (
            "step 792/2000  loss 0.0098  267 global steps/s  ETA 0:05",
            "step 5/9  loss 1.2e-05  1,267 global steps/s ETA 0:12",
        ),
        ("checkpoint /home/you/runs/digits-async-20261129-093826/model.ckpt-2000", "checkpoint /tmp/x/model.ckpt-10"),
        ("saving paused updates for 8 ms on average", "saving paused updates for 1.2 s on average"),
        ("status   http://127.0.0.1:38703/", "status http://localhost:1/"),
        ("0.055743556 delta from hash 15ded38e956d", "0.9198531 delta from hash ab00000000cc"),
        ("in 5.1s: 395 steps/s", "in 1m05s: 4 steps/s"),
    ],
)
def test_lines_that_differ_by_numbers_times_and_paths_are_alike(shown, real):
    assert masked(shown) == masked(real)


@pytest.mark.parametrize(
    ("one", "other"), [("trained 5 steps", "saved 5 steps"), ("test auc 0.9", "test accuracy 0.9")]
)
def test_lines_that_differ_by_a_word_are_not_alike(one, other):
    assert masked(one) != masked(other)


def test_the_shown_lines_must_come_in_their_order_but_those_of_tasks():
    printed = ["a 1", "[ps:0] x", "a 2", "b"]
    assert missing_lines(("[ps:0] x", "a 7", "a 8", "...", "b"), printed) == []
    assert missing_lines(("b", "a 1"), printed) == ["a 1"]
    assert missing_lines(("[ps:0] y", "c"), printed) == ["[ps:0] y", "c"]


def test_commands_are_found_behind_assignments_continuations_and_pipes():
    text = (
        "A=1 python -m ps_train \\\n  --max_steps=5 > log 2>&1 &\nnice .venv/bin/python3 -m ps_train doctor | head -3\n"
    )
    assert commands_of(text) == [
        ["python", "-m", "ps_train", "--max_steps=5"],
        ["python", "-m", "ps_train", "doctor"],
        ["head", "-3"],
    ]


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("python -m ps_train --no_such_flag=1", "no_such_flag"),
        ("python -m ps_train --max_steps=x", "max_steps"),
        ("python -m ps_train tain", "tain"),
        ("python -m ps_train predict --data=x --two=1", "two"),
        ("python -m ps_train launch --hosts=a:ps,b:worker -- --modell=net:Net", "modell"),
        ("python -m ps_train.models.nothing", "nothing"),
        ("./run_pss.sh", "run_pss"),
        ("./run_ps.sh --no_such_flag", "no_such_flag"),
    ],
)
def test_a_command_that_does_not_exist_is_found(command, part):
    (problem,) = problems_of(command + "\n", set())
    assert part in problem


@pytest.mark.parametrize(
    "command",
    [
        "python -m ps_train --model=net:Net --max_steps=5",
        "python -m ps_train launch --hosts=a:ps,b:worker*2 -- --model=net:Net",
        "python -m ps_train doctor --flagfile=job.flags",
        "python -m ps_train run --num_ps=1 train.py --lr=0.1",
        "python -m ps_train --job_name=worker --task_index=$SLURM_PROCID --flagfile=job.flags",
        "./run_local.sh --num_workers=3",
        "python net.py",
    ],
)
def test_a_command_that_exists_is_right(command):
    assert problems_of(command + "\n", {"net.py"}) == []


def test_a_public_name_that_does_not_exist_is_found():
    program = (
        "import ps_train\nfrom ps_train import losses, nothing\nps_train.fit(a)\nps_train.fitt(b)\nps_train.losses.no()"
    )
    assert private(names_in_source(program)) == {"ps_train.nothing", "ps_train.fitt", "ps_train.losses.no"}
