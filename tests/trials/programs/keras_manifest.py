"""The public programs of `tf.distribute` and Keras in README.md that one command runs.

They run without `--compat`.  Each of multi-worker strategies is started as two workers; a program of
ParameterServerStrategy as a ps, two workers and a chief, or as one process that names a cluster of its own.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tests.trials.programs import made_data, notebooks
from tests.trials.programs.program import Program

Prepare = Callable[[pathlib.Path, pathlib.Path], None]

_STAND_INS = pathlib.Path(__file__).parent / "stand_ins"
_WORKERS = ("--num_ps=0", "--num_workers=2")
_ONE_PS = ("--num_ps=1", "--num_workers=2")
_SERVED = ("--num_ps=1", "--num_workers=2", "--chief")
_ALONE: tuple[str, ...] = ()
"""One process: the program names its cluster itself."""


def _program(
    repository: str,
    path: str,
    prepare: Prepare | None = None,
    *arguments: str,
    end: str = "",
    cluster: Sequence[str] = _WORKERS,
    environment: Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
) -> Program:
    folder, _, script = path.rpartition("/")
    return Program(
        repository,
        folder or ".",
        [script, *arguments],
        end,
        prepare,
        cluster,
        needs=needs,
        switches=(),
        environment={"PYTHONPATH": str(_STAND_INS), "MADE_DATA": "{data}", **(environment or {})},
    )


def _pictures(name: str = "mnist", train: int = 2000, test: int = 400) -> Prepare:
    return functools.partial(made_data.pictures, name, train, test)


def _and(*steps: Prepare) -> Prepare:
    def prepare(copy: pathlib.Path, folder: pathlib.Path) -> None:
        for step in steps:
            step(copy, folder)

    return prepare


def _notebook(path: str, first: str = "", end: str = "", script: str = "") -> Prepare:
    def prepare(copy: pathlib.Path, folder: pathlib.Path) -> None:
        notebook = copy / path
        notebooks.script_of(notebook, notebook.with_name(script or f"{notebook.stem}.py"), first, end)

    return prepare


def _written(path: str) -> Prepare:
    return lambda copy, folder: notebooks.written_by(copy / path, (copy / path).parent)


def _without_spark(copy: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes a script that calls the program's function as TensorFlowOnSpark does in each executor."""
    (copy / "examples/mnist/keras/without_spark.py").write_text(
        "import argparse, json, os, sys, types\n"
        "import mnist_tf\n"
        "compat = types.ModuleType('tensorflowonspark.compat')\n"
        "compat.export_saved_model = lambda model, path, is_chief: model.export(path) if is_chief else None\n"
        "package = types.ModuleType('tensorflowonspark')\n"
        "package.compat = compat\n"
        "sys.modules.update({'tensorflowonspark': package, 'tensorflowonspark.compat': compat})\n"
        "args = argparse.Namespace(buffer_size=1000, batch_size=64, cluster_size=2, epochs=3, steps_per_epoch=20,\n"
        "                          model_dir=sys.argv[1], export_dir=sys.argv[1] + '/export')\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "mnist_tf.main_fun(args, types.SimpleNamespace(job_name='chief' if not task['index'] else 'worker'))\n"
    )


_DOCS = "site/en/tutorials/distribute"
_AZURE = "jobs/single-step/tensorflow/mnist-distributed/src"
_CLOUD = "src/python/tensorflow_cloud/core/tests/testdata"
_SERVERS = "tensorflow/parameter-server-training"
_LABS = (
    "Course 2 - Custom Training loops, Gradients and Distributed Training/Week 4 - Distribution Strategy/C2_W4_Lab_"
)
_EPOCHS = r"Epoch 3/3[\s\S]*accuracy"

PROGRAMS = [
    _program(
        "tensorflow/docs",
        f"{_DOCS}/main.py",
        _and(_pictures(), _written(f"{_DOCS}/multi_worker_with_keras.ipynb")),
        end=_EPOCHS,
    ),
    _program(
        "tensorflow/docs",
        f"{_DOCS}/parameter_server_training.py",
        _notebook(f"{_DOCS}/parameter_server_training.ipynb", end="feature_vocab = ["),
        end=r"Epoch 5/5",
        cluster=_ALONE,
        needs=("portpicker",),
    ),
    _program("tensorflow/docs", f"{_DOCS}/keras.py", _and(_pictures(), _notebook(f"{_DOCS}/keras.ipynb")),
             end=r"Eval loss: .*Eval Accuracy: (0\.[89]|1\.)"),
    _program(
        "kubeflow/tf-operator",
        "examples/v1/distribution_strategy/keras-API/multi_worker_strategy-with-keras.py",
        _pictures(),
        "--saved_model_dir={model}/saved",
        "--checkpoint_dir={model}/checkpoints",
        end=r"Learning rate for epoch 10 is",
    ),
    _program("tony-framework/TonY", "tony-examples/mnist-tensorflow/mnist_keras_distributed.py", _pictures(),
             end=r"Epoch 2/2[\s\S]*accuracy"),
    _program("yahoo/TensorFlowOnSpark", "examples/mnist/keras/without_spark.py", _and(_pictures(), _without_spark),
             "{model}", end=_EPOCHS),
    _program("keras-team/keras", "guides/distributed_training_with_tensorflow.py", _pictures(train=12000),
             end=r"Epoch 2/2[\s\S]*Restoring from", cluster=_ONE_PS),
    _program("nakamasato/ml-training", "tensorflow/multi-worker-mirrored-strategy/run_with_multi_worker.py",
             _pictures(), end=_EPOCHS),
    _program("nakamasato/ml-training", f"{_SERVERS}/train_with_keras.py", end=r"Epoch 5/5", cluster=_ALONE,
             needs=("portpicker",)),
    _program("flamearrow/ml", "kerastoy/toys/multi_gpus.py", end="loss", cluster=_ONE_PS),
    _program("aws/sagemaker-tensorflow-training-toolkit", "test/resources/multi_worker_mirrored/train_dummy.py",
             _pictures(), end=_EPOCHS),
    _program("Azure/azureml-examples", f"cli/{_AZURE}/train.py", _pictures(), "--model-dir={model}/saved", end=_EPOCHS),
    _program("Azure/azureml-examples", f"sdk/python/{_AZURE}/main.py", _pictures(), "--model-dir={model}/saved",
             end=_EPOCHS),
    _program("Azure/azureml-examples", "sdk/python/jobs/pipelines/2a_train_mnist_with_tensorflow/src/train.py",
             _pictures(), "--model-dir={model}/saved", end=_EPOCHS),
    _program("nand0p/nomadAI", "train/docker/multi-worker.py", _pictures(), end=_EPOCHS),
    _program("tensorflow/cloud", f"{_CLOUD}/mnist_example_using_fit.py", _pictures(), end="Learning rate for epoch 2",
             cluster=_ONE_PS),
    _program("tensorflow/cloud", f"{_CLOUD}/save_and_load.py", _pictures(), "--path={model}",
             end=r"Restored model, accuracy", cluster=_ONE_PS),
    _program("cerndb/tf-spawner", "examples/mnist.py", _pictures(train=60000, test=10000), end="Finished training",
             environment={"TOT_WORKERS": "2", "WORKER_NUMBER": "0"}),
    _program("https-deeplearning-ai/tensorflow-3-public", f"{_LABS}1.py",
             _and(_pictures(), _notebook(f"{_LABS}1_basic-mirrored-strategy.ipynb", script="C2_W4_Lab_1.py")),
             end="Epoch 12/12", cluster=_ONE_PS),
    _program("Lyin-Tomy/Artificial-intelligence-combat-tensorflow-notes",
             "中国大学MOOCTF笔记2.1共享给所有学习者/save.py", _pictures(), end="Epoch 2/2", cluster=_ONE_PS),
    _program("GoogleCloudPlatform/vertex-ai-samples",
             "community-content/tf_keras_image_classification_distributed_multi_worker_with_vertex_sdk/trainer/task.py",
             _pictures(), "--epochs=3", "--model-dir={model}/saved", "--tensorboard-log-dir={model}/logs",
             "--checkpoint-dir={model}/checkpoints", end=_EPOCHS),
]
