"""The public programs of README.md that one command runs, with their arguments and their expected end."""

from __future__ import annotations

import functools

from tests.trials.programs import made_data
from tests.trials.programs.program import Program


def _easyrec(model: str) -> Program:
    config = f"samples/model_config/{model}_on_taobao.config"
    edit = '{"train_config.num_steps": 40, "train_config.sync_replicas": false, "data_config.batch_size": 64}'
    return Program(
        "alibaba/EasyRec",
        ".",
        [
            *("-m", "easy_rec.python.train_eval", "--pipeline_config_path", config, "--model_dir", "{model}"),
            *("--train_input_path", "{data}/train.csv", "--eval_input_path", "{data}/eval.csv"),
            *("--edit_config_json", edit),
        ],
        r"training ended at global step 40\b",
        functools.partial(made_data.easyrec, config),
        needs=("grpc_tools", "pandas", "tensorflow_probability"),
        label=model,
    )


def _census(trainer: str, cluster: str, end: str) -> Program:
    flags = ["--train-files", "{data}/train.csv", "--eval-files", "{data}/eval.csv", "--job-dir", "{model}"]
    flags += ["--train-steps", "100", "--eval-steps", "5"]
    return Program(
        "GoogleCloudPlatform/cloudml-samples",
        f"census/{trainer}",
        ["-m", "trainer.task", *flags],
        end,
        lambda copy, folder: made_data.census(folder),
        cluster=("--num_ps=1", "--num_workers=2", cluster),
    )


def _guide(folder: str, program: str, end: str, workers: int = 2) -> Program:
    cluster = ("--num_ps=1", f"--num_workers={workers}")
    return Program("tmulc18/Distributed-TensorFlow-Guide", folder, [program], end, cluster=cluster)


def _of_clicks(program: str, *flags: str) -> Program:
    folder = "deep_ctr/Model_pipeline"
    arguments = ["--data_dir={data}", "--model_dir={model}/", "--dt_dir=now", "--num_epochs=1", "--batch_size=64"]
    return Program(
        "lambdaji/tf_repos",
        folder,
        [program, *arguments, "--feature_size=200", "--field_size=10", *flags],
        r"training ended at global step 200\b",  # 6,400 rows in each of two workers
        functools.partial(made_data.clicks_for_python_2, f"{folder}/{program}"),
        needs=("lib2to3",),
    )


def _of_videos(path: str) -> Program:
    folder, program = path.split("/")
    return Program(
        "tangxyw/RecAlgorithm",
        f"algorithm/{folder}",
        [program, "--batch_size=256", "--model_dir={model}"],
        r"training ended at global step 24\b",  # 3,000 rows in each of two workers
        functools.partial(made_data.videos, f"algorithm/{folder}/{program}"),
        needs=("pandas",),
    )


def _of_products(module: str) -> Program:
    flags = ["--train_data={data}/train.tfrecords", "--eval_data={data}/test.tfrecords", "--model_dir={model}"]
    return Program(
        "yangxudong/deeplearning",
        ".",
        ["-m", module, *flags, "--output_model={model}/exported", "--train_steps=60", "--batch_size=64"],
        r"training ended at global step 60\b",
        lambda copy, folder: made_data.products(folder),
        cluster=("--num_ps=1", "--num_workers=2", "--chief"),
    )


_MNIST = "examples/v1/dist-mnist"
_MESOS = "tensorflow_mesos/jobs"
_OLD = "tensorflow_v1/examples/3_NeuralNetworks"
_ALONE = ("--num_ps=0", "--num_workers=1")

PROGRAMS = [
    *map(
        _easyrec,
        ["autoint", "dbmtl", "dcn", "din", "dlrm", "esmm", "fm", "masknet", "mmoe", "multi_tower", "ple"],
    ),
    _census("estimator", "--chief", r"training ended at global step 100\b"),
    _census("customestimator", "--chief", r"training ended at global step 100\b"),
    _census("tensorflowcore", "--chief=master", r"Starting Evaluation For Step: 10[0-4]\b"),
    Program("kubeflow/tf-operator", _MNIST, ["dist_mnist.py", "--train_steps=100"], r"global step: 10\d\b"),
    Program(
        "kubeflow/tf-operator",
        _MNIST,
        ["dist_mnist.py", "--train_steps=100", "--sync_replicas"],
        r"global step: 10\d\b",
        label=f"{_MNIST}/dist_mnist.py --sync_replicas",
    ),
    Program(
        "kubeflow/tf-operator",
        "examples/v1/mnist_with_summaries",
        ["mnist_with_summaries.py", "--max_steps=100", "--data_dir={data}", "--log_dir={model}"],
        r"Accuracy at step 90: 0\.9",
    ),
    Program(
        "kubeflow/tf-operator",
        "examples/tf_sample",
        ["tf_smoke.py"],
        r"",
        cluster=("--num_ps=1", "--num_workers=2", "--chief"),
    ),
    _guide("Distributed-Setup", "dist_setup.py", "", workers=1),
    _guide("Distributed-Setup", "dist_setup_sup.py", "", workers=1),
    _guide("Synchronous-SGD", "ssgd.py", ""),
    _guide("Synchronous-SGD-different-learning-rates", "ssgd.py", ""),
    _guide("DOWNPOUR", "DOWNPOUR.py", ""),
    _guide("DOWNPOUR-Easy", "DOWNPOUR.py", ""),
    _guide("AGN", "AGN.py", ""),
    _guide("SAGN", "SAGN.py", ""),
    Program("hustcat/tensorflow_examples", "mnist_distributed", ["dist_fifo.py"], r"Test-Accuracy: 0\.9"),
    Program("hustcat/tensorflow_examples", "mnist_distributed", ["dist_join.py"], r"Test-Accuracy: 0\.9"),
    Program("leo-mao/dist-mnist", ".", ["distributed_server-basic.py"], r"Train step 3900\b"),
    Program(
        "feihugis/distributed_tensorflow_explore",
        ".",
        ["distributed_mnist.py", "--train_steps=100"],
        r"global step:10\d\b",
    ),
    Program(
        "yanglei99/Distributed_TensorFlow_Exercise", _MESOS, ["dist_mnist.py", "--max_step=100"], r"Test-Accuracy: 0\.9"
    ),
    Program("yanglei99/Distributed_TensorFlow_Exercise", _MESOS, ["dist_test.py"], ""),
    Program("yanglei99/Distributed_TensorFlow_Exercise", _MESOS, ["dist_test_summary.py"], ""),
    *(
        Program(
            "aymericdamien/TensorFlow-Examples", _OLD, [f"{name}.py"], r"(?i)accuracy\D*(0\.[89]|1\.0)", cluster=_ALONE
        )
        for name in (
            "convolutional_network",
            "dynamic_rnn",
            "multilayer_perceptron",
            "neural_network",
            "recurrent_network",
        )
    ),
    Program(
        "alexwal/distributed-tensorflow-intro",
        "local_fs/MNIST",
        ["updated.py", "--log_dir={model}"],
        r"Test-Accuracy: 0\.9",
        cluster=("--num_ps=1", "--num_workers=3"),
        needs=("tf_slim",),
    ),
    Program(
        "TracyMcgrady6/Distribute_MNIST",
        ".",
        ["distributed.py", "--train_steps=100"],
        r"global step:10\d\b",
        lambda copy, folder: made_data.for_python_3(copy / "distributed.py"),
        needs=("lib2to3",),
    ),
    Program(
        "GoogleCloudPlatform/cloudml-dist-mnist-example",
        ".",
        ["-m", "trainer.task_p3", "--data_dir={data}", "--output_dir={model}", "--train_steps=60", "--eval_steps=5"],
        r"training ended at global step 60\b",
        lambda copy, folder: made_data.images(folder),
        cluster=("--num_ps=1", "--num_workers=2", "--chief"),
    ),
    *map(_of_clicks, ["DeepFM.py", "DCN.py", "NFM.py", "DeepMVM.py"]),
    *map(
        _of_videos,
        [
            *("AFM/afm.py", "BST/bst.py", "DCN/dcn.py", "DIN/din.py", "DeepCrossing/deepcrossing.py"),
            *("DeepFM/deepfm.py", "FFM/ffm.py", "FiBiNET/fibinet.py", "FwFM/fwfm.py", "MMOE/mmoe.py", "NFM/nfm.py"),
            *("PLE/ple.py", "xDeepFM/xdeepfm.py", "WideAndDeep/wide_and_deep.py"),
            "WideAndDeep/wide_and_deep_builtin.py",
        ],
    ),
    *map(_of_products, ["DCN.train", "DIN.train", "deepFM.train_deepfm", "esmm.esmm"]),
    Program(
        "qwurey/distributed_tensorflow_demo",
        ".",
        ["mnist_dist_dnn_1layer.py"],
        r"accuracy: 0\.9",
        lambda copy, folder: made_data.for_python_3(copy / "mnist_dist_dnn_1layer.py"),
        needs=("lib2to3",),
    ),
]
