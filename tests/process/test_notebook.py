"""`fit` in the kernel of a notebook: the examples, the bar as text and as a widget, and an interrupt."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import sys
import time

import pytest

from tests.process.test_fit import NET
from tests.support.machine.proc import marked
from tests.support.machine.processes import eventually

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOKS = ROOT / "examples" / "notebook"

pytestmark = pytest.mark.long


def missing(*names: str) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


needs_kernel = pytest.mark.skipif(
    bool(missing("nbclient", "ipykernel", "tqdm")), reason="needs nbclient, ipykernel and tqdm"
)


@pytest.fixture
def environment(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))


def client_of(notebook, directory: pathlib.Path):
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec
    from nbclient import NotebookClient

    manager = AsyncKernelManager()
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=command, display_name="test", language="python")  # no file of a kernel
    return NotebookClient(
        notebook, km=manager, timeout=300, startup_timeout=120, resources={"metadata": {"path": str(directory)}}
    )


def text_of(cell) -> str:
    return "".join(one.get("text", "") for one in cell.outputs if one.output_type == "stream")


@needs_kernel
def test_the_example_runs_and_shows_a_bar(tmp_path: pathlib.Path, environment: None) -> None:
    import nbformat

    notebook = nbformat.read(NOTEBOOKS / "clicks.ipynb", as_version=4)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code"] == [[]] * 6
    client_of(notebook, tmp_path).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    fit, table, plot, further = cells[2:]
    assert "trained 1000 steps" in text_of(fit) and "\nstep " not in text_of(fit)
    if missing("ipywidgets"):
        assert "1000/1000" in text_of(fit) and "loss=" in text_of(fit) and "auc=" in text_of(fit)
    else:
        shown = [one for one in fit.outputs if one.output_type == "display_data"]
        assert any("application/vnd.jupyter.widget-view+json" in one.data for one in shown)
        state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
        texts = [one["state"].get("value") for one in state.values()]
        assert any("1000/1000" in str(text) and "loss=" in text and "auc=" in text for text in texts)
    assert "'auc'" in table.outputs[0].data["text/plain"]
    assert missing("matplotlib") or "image/png" in plot.outputs[0].data
    assert further.outputs[-1].data["text/plain"].startswith("(1200, {'auc': 0.")


@needs_kernel
def test_the_example_of_keras_trains_the_model_of_the_notebook(tmp_path: pathlib.Path, environment: None) -> None:
    import nbformat

    notebook = nbformat.read(NOTEBOOKS / "keras.ipynb", as_version=4)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code"] == [[]] * 6
    client_of(notebook, tmp_path).execute()
    fit, history, score, further = [cell for cell in notebook.cells if cell.cell_type == "code"][2:]
    assert "Epoch 1/4" in text_of(fit)
    assert "'val_AUC'" in history.outputs[-1].data["text/plain"]
    assert "'AUC'" in score.outputs[-1].data["text/plain"]
    assert further.outputs[-1].data["text/plain"] == "True"


@needs_kernel
def test_an_interrupt_of_the_cell_ends_all_processes(
    tmp_path: pathlib.Path, environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_client import BlockingKernelClient, KernelManager
    from jupyter_client.kernelspec import KernelSpec

    monkeypatch.setenv("PS_TRAIN_TEST_MARK", mark := f"notebook-{os.getpid()}-{time.time_ns()}")
    manager = KernelManager()
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=command, display_name="test", language="python")
    manager.start_kernel(cwd=str(tmp_path))
    client: BlockingKernelClient = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(120)
        client.execute(f"{NET}\nps_train.fit(Net, max_steps=10**8, num_workers=1, model_dir='m')")
        output, errors, is_interrupted = "", [], False
        while True:
            message = client.get_iopub_msg(timeout=150)
            kind, content = message["header"]["msg_type"], message["content"]
            output += content.get("text", "")
            if kind == "error":
                errors.append(content["ename"])
            if not is_interrupted and ("loss=" in output or (kind == "comm_msg" and "loss=" in json.dumps(content))):
                is_interrupted = True
                manager.interrupt_kernel()
            if kind == "status" and content["execution_state"] == "idle" and is_interrupted:
                break
        assert errors == ["KeyboardInterrupt"], output
        assert list((tmp_path / "m").glob("model.ckpt-*.index")) and "saved" in output
        kernel = [manager.provisioner.pid]
        eventually(lambda: marked(f"PS_TRAIN_TEST_MARK={mark}") == kernel, 20, "the end of all other processes")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
