"""The public programs of `tf.distribute` and Keras in README.md that one command runs.

They run without `--compat`.  Each of multi-worker strategies is started as two workers; a program of
ParameterServerStrategy as a ps, a worker and a chief, or as one process that names a cluster of its own.  One of
MirroredStrategy that calls `fit` is started as a ps and two workers; one with a loop of its own as one process.
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
_ONE_WORKER = ("--num_ps=0", "--num_workers=1")
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
    label: str = "",
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
        label=label,
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


def _edited(path: str, *edits: tuple[str, str]) -> Prepare:
    """Returns a step that replaces text of a program, as README says."""

    def prepare(copy: pathlib.Path, folder: pathlib.Path) -> None:
        text = (copy / path).read_text()
        for old, new in edits:
            assert old in text, f"{path} has no {old!r}"
            text = text.replace(old, new)
        (copy / path).write_text(text)

    return prepare


def _cell(notebook: str, script: str, *edits: tuple[str, str]) -> Prepare:
    """Returns a step that writes what a notebook's cell writes, beside the notebook, and edits it."""

    def prepare(copy: pathlib.Path, folder: pathlib.Path) -> None:
        target = (copy / notebook).parent / script
        target.parent.mkdir(parents=True, exist_ok=True)
        notebooks.written_by(copy / notebook, (copy / notebook).parent)
        _edited(str(target.relative_to(copy)), *edits)(copy, folder)

    return prepare


def _moved(folder: str, into: str, *names: str) -> Prepare:
    """Returns a step that moves files into a folder of their own."""

    def prepare(copy: pathlib.Path, data: pathlib.Path) -> None:
        (copy / folder / into).mkdir()
        for name in names:
            (copy / folder / name).rename(copy / folder / into / name)

    return prepare


def _houses(copy: pathlib.Path, folder: pathlib.Path) -> None:
    made_data.houses(folder)


def _distributor(copy: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes a module that calls the program's function in each task, as Spark's tasks do."""
    (copy / "spark/spark-tensorflow-distributor/examples/simple/spark_tensorflow_distributor.py").write_text(
        "class MirroredStrategyRunner:\n"
        "    def __init__(self, num_slots):\n"
        "        pass\n"
        "    def run(self, function):\n"
        "        return function()\n"
    )


_DOCS = "site/en/tutorials/distribute"
_AZURE = "jobs/single-step/tensorflow/mnist-distributed/src"
_CLOUD = "src/python/tensorflow_cloud/core/tests/testdata"
_SERVERS = "tensorflow/parameter-server-training"
_LABS = "Course 2 - Custom Training loops, Gradients and Distributed Training/Week 4 - Distribution Strategy/C2_W4_Lab_"
_CUSTOM = "notebooks/community/gapic/custom"
_STAGE = "notebooks/community/ml_ops/stage2"
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
    _program(
        "tensorflow/docs",
        f"{_DOCS}/distributed_keras.py",
        _and(_pictures(train=800), _notebook(f"{_DOCS}/keras.ipynb", script="distributed_keras.py")),
        end=r"Eval loss: .*Eval Accuracy: (0\.[89]|1\.)",
    ),
    _program(
        "kubeflow/tf-operator",
        "examples/v1/distribution_strategy/keras-API/multi_worker_strategy-with-keras.py",
        _pictures(),
        "--saved_model_dir={model}/saved",
        "--checkpoint_dir={model}/checkpoints",
        end=r"Learning rate for epoch 10 is",
    ),
    _program(
        "tony-framework/TonY",
        "tony-examples/mnist-tensorflow/mnist_keras_distributed.py",
        _pictures(),
        end=r"Epoch 2/2[\s\S]*accuracy",
    ),
    _program(
        "yahoo/TensorFlowOnSpark",
        "examples/mnist/keras/without_spark.py",
        _and(_pictures(), _without_spark),
        "{model}",
        end=_EPOCHS,
    ),
    _program(
        "keras-team/keras",
        "guides/distributed_training_with_tensorflow.py",
        _pictures(train=12000),
        end=r"Epoch 2/2[\s\S]*Restoring from",
        cluster=_ONE_PS,
    ),
    _program(
        "nakamasato/ml-training",
        "tensorflow/multi-worker-mirrored-strategy/run_with_multi_worker.py",
        _pictures(),
        end=_EPOCHS,
    ),
    _program(
        "nakamasato/ml-training",
        f"{_SERVERS}/train_with_keras.py",
        end=r"Epoch 5/5",
        cluster=_ALONE,
        needs=("portpicker",),
    ),
    _program("flamearrow/ml", "kerastoy/toys/multi_gpus.py", end="loss", cluster=_ONE_PS),
    _program(
        "aws/sagemaker-tensorflow-training-toolkit",
        "test/resources/multi_worker_mirrored/train_dummy.py",
        _pictures(),
        end=_EPOCHS,
    ),
    _program(
        "Azure/azureml-examples", f"sdk/python/{_AZURE}/main.py", _pictures(), "--model-dir={model}/saved", end=_EPOCHS
    ),
    _program(
        "Azure/azureml-examples",
        "sdk/python/jobs/pipelines/2a_train_mnist_with_tensorflow/src/train.py",
        _pictures(),
        "--model-dir={model}/saved",
        end=_EPOCHS,
    ),
    _program("nand0p/nomadAI", "train/docker/multi-worker.py", _pictures(), end=_EPOCHS),
    _program(
        "tensorflow/cloud",
        f"{_CLOUD}/mnist_example_using_fit.py",
        _pictures(),
        end="Learning rate for epoch 2",
        cluster=_ONE_PS,
    ),
    _program(
        "https-deeplearning-ai/tensorflow-3-public",
        f"{_LABS}1.py",
        _and(_pictures(), _notebook(f"{_LABS}1_basic-mirrored-strategy.ipynb", script="C2_W4_Lab_1.py")),
        end="Epoch 12/12",
        cluster=_ONE_PS,
        label="C2_W4_Lab_1",
    ),
    _program(
        "tensorflow/docs",
        f"{_DOCS}/custom_training.py",
        _and(_pictures("fashion_mnist", 800, 200), _notebook(f"{_DOCS}/custom_training.ipynb")),
        end=r"Accuracy after restoring the saved model",
        cluster=_ALONE,
    ),
    _program(
        "tensorflow/docs",
        f"{_DOCS}/ctl/main.py",
        _and(
            _pictures(train=5000),
            _cell(f"{_DOCS}/multi_worker_with_ctl.ipynb", "main.py"),
            _moved(f"{_DOCS}", "ctl", "main.py", "mnist.py"),
        ),
        end=r"Epoch: 2, accuracy",
        cluster=_ONE_WORKER,
    ),
    _program(
        "tensorflow/docs",
        f"{_DOCS}/save_and_load.py",
        _and(_pictures(train=800), _notebook(f"{_DOCS}/save_and_load.ipynb", end="import tensorflow_hub")),
        end=r"Epoch 2/2",
        cluster=_ONE_PS,
    ),
    _program(
        "google-deepmind/xmanager",
        "examples/cifar10_tensorflow/cifar10.py",
        _pictures("cifar10", 640, 200),
        "--epochs=2",
        end=r"Epoch 2/2",
        cluster=_ONE_PS,
    ),
    _program(
        "google-deepmind/xmanager",
        "examples/cifar10_tensorflow_k8s_multiworker/cifar10.py",
        _pictures("cifar10", 640, 200),
        "--epochs=2",
        end=r"Epoch 2/2",
    ),
    _program(
        "google-deepmind/xmanager",
        "examples/cifar10_tensorflow_k8s_ps/cifar10.py",
        _and(
            _pictures("cifar10", 640, 200), _edited("examples/cifar10_tensorflow_k8s_ps/cifar10.py", ("=1500", "=50"))
        ),
        "--epochs=2",
        end=r"Epoch 2/2",
        cluster=_SERVED,
    ),
    _program(
        "tensorflow/cloud",
        f"{_CLOUD}/mnist_example_using_ctl.py",
        _pictures("fashion_mnist", 800, 200),
        end="Epoch 2, Loss",
        cluster=_ALONE,
    ),
    _program(
        "https-deeplearning-ai/tensorflow-3-public",
        f"{_LABS}2.py",
        _and(
            _pictures("fashion_mnist", 800, 200),
            _notebook(f"{_LABS}2_multi-GPU-mirrored-strategy.ipynb", script="C2_W4_Lab_2.py"),
        ),
        end="Epoch 10, Loss",
        cluster=_ALONE,
        label="C2_W4_Lab_2",
    ),
    _program(
        "GoogleCloudPlatform/vertex-ai-samples",
        f"{_CUSTOM}/custom/trainer/task.py",
        _and(
            _pictures("cifar10", 640, 200),
            _cell(f"{_CUSTOM}/showcase_custom_image_classification_online.ipynb", "custom/trainer/task.py"),
        ),
        "--distribute=multi",
        "--epochs=2",
        "--steps=20",
        "--model-dir={model}/saved",
        end=r"Epoch 2/2",
    ),
    _program(
        "GoogleCloudPlatform/vertex-ai-samples",
        f"{_STAGE}/custom/trainer/task.py",
        _and(
            _houses,
            _cell(
                f"{_STAGE}/get_started_vertex_distributed_training.ipynb",
                "custom/trainer/task.py",
                ("np.float)", "float)"),
            ),
        ),
        "--distribute=multiworker",
        "--epochs=3",
        "--model-dir={model}/saved",
        "--param-file={model}/param.txt",
        end=r"Epoch 3/3",
    ),
    _program(
        "tensorflow/ecosystem",
        "spark/spark-tensorflow-distributor/examples/simple/example.py",
        _and(_pictures(), _distributor),
        end=_EPOCHS,
    ),
    _program("nakamasato/ml-training", f"{_SERVERS}/distributed_sample.py", cluster=_ALONE, needs=("portpicker",)),
]
