"""The chief's event file, read with TensorBoard's own reader: the model's summaries, test metrics, flags and plan."""

from __future__ import annotations

import json
import pathlib
import textwrap

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.long import long
from tests.support.machine.processes import Processes

MODEL = """
    import tensorflow as tf
    import tensorflow.compat.v1 as v1
    from tests.support.models.small import Linear
    class Net(Linear):
        def forward(self, features, training):
            outputs = super().forward(features, training)
            v1.summary.scalar("outputs/mean", tf.reduce_mean(outputs))
            v1.summary.histogram("values", outputs)
            return outputs
        def loss(self, outputs, labels):
            loss = super().loss(outputs, labels)
            v1.summary.scalar("my_loss", loss)
            return loss
        def metrics(self, outputs, labels):
            return {"square": v1.metrics.mean(tf.square(outputs - labels))}
"""


def events_of(directory: pathlib.Path) -> EventAccumulator:
    assert len(list(directory.glob("events.out.tfevents.*"))) == 1
    return EventAccumulator(str(directory), size_guidance={"histograms": 0, "scalars": 0}).Reload()


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "workers"), [(["--update=sync"], 2), long(["--accumulate=3"], 1), long(["--steps_per_run=4"], 1)]
)
def test_summaries_of_the_model_come_every_summary_steps_under_the_users_names(
    processes: Processes, flags: list[str], workers: int
) -> None:
    (processes.directory / "net.py").write_text(textwrap.dedent(MODEL))
    directory = processes.directory / "m"
    run = processes.run(
        "--model=net:Net", f"--model_dir={directory}", "--max_steps=55", "--summary_steps=20", "--batch_size=4",
        f"--num_workers={workers}", *flags,
    )  # fmt: skip
    assert run.wait(100) == 0, run.output
    events = events_of(directory)
    for tag in ("outputs/mean", "my_loss"):
        assert [event.step for event in events.Scalars(tag)] == [20, 40, 55]
    assert [event.step for event in events.Histograms("values")] == [20, 40, 55]
    assert "model/" not in " ".join([*events.Tags()["scalars"], *events.Tags()["histograms"]])
    (metric,) = events.Scalars("test/square")
    result = json.loads((directory / "result.json").read_text())
    assert (metric.step, metric.value) == (55, pytest.approx(result["metrics"]["square"], rel=1e-4, abs=1e-6))
    assert "job" in events.PluginTagToContent("text")
    text = events.Tensors("job")[0].tensor_proto.string_val[0].decode()
    for part in ("--max_steps=55", "--model=net:Net", "--summary_steps=20", "w  3x1 float32  12 B"):
        assert part in text


def test_with_0_there_are_none(processes: Processes) -> None:
    (processes.directory / "net.py").write_text(textwrap.dedent(MODEL))
    directory = processes.directory / "m"
    flags = ["--max_steps=30", "--summary_steps=0", "--num_workers=1", f"--model_dir={directory}"]
    run = processes.run("--model=net:Net", *flags)
    assert run.wait(100) == 0, run.output
    tags = events_of(directory).Tags()
    assert not {"outputs/mean", "my_loss"} & {*tags["scalars"]} and not {"values"} & {*tags["histograms"]}
