"""A whole SavedModel in TensorFlow Serving's layout answers the messages of tensorflow-serving-api.

The package is an extra (`pip install '.[serving]'`).  A real `tensorflow_model_server` is asked if one is on the
PATH.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ps_train.data.pipeline import DataSource
from ps_train.saved.export.export import export, prepare_export
from ps_train.saved.serving.exported import Exported
from ps_train.saved.values import Writer
from tests.support.models.small import Linear


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An export of y = x @ [1, 2, 3] + 0.5."""
    folder, model = tmp_path_factory.mktemp("serving"), Linear()
    writer = Writer(str(folder / "model.ckpt-7"))
    for key, value in {"w": np.array([[1], [2], [3]], np.float32), "b": np.float32(0.5), "global_step": 7}.items():
        writer.add(key, np.asarray(value))
    writer.close()
    source = DataSource(lambda: model.data("train", ""))
    return export(model, source, str(folder / "model.ckpt-7"), prepare_export(str(folder / "export")))


X = np.array([[1, 0, 0], [0, 1, 1]], np.float32)
Y = np.array([1.5, 5.5], np.float32)


def test_the_layout_is_that_of_tensorflow_serving(path: str) -> None:
    folder = pathlib.Path(path)
    assert folder.name == "1" and (folder / "saved_model.pb").is_file() and (folder / "variables").is_dir()
    others = {one.name for one in folder.iterdir()} - {"saved_model.pb", "variables", "assets", "fingerprint.pb"}
    assert others == {"assets.extra"}, "a directory that servers leave alone"
    (graph,) = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]
    for signature in graph.signature_def.values():
        assert signature.method_name == "tensorflow/serving/predict"


def test_a_predict_request_of_the_messages_is_answered(path: str) -> None:
    predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
    metadata_pb2 = pytest.importorskip("tensorflow_serving.apis.get_model_metadata_pb2")
    (graph,) = saved_model_pb2.SavedModel.FromString((pathlib.Path(path) / "saved_model.pb").read_bytes()).meta_graphs
    signatures = metadata_pb2.SignatureDefMap(signature_def=graph.signature_def)
    response = metadata_pb2.GetModelMetadataResponse()
    response.metadata["signature_def"].Pack(signatures)
    told = metadata_pb2.SignatureDefMap()
    assert (
        metadata_pb2.GetModelMetadataResponse.FromString(response.SerializeToString())
        .metadata["signature_def"]
        .Unpack(told)
    )
    inputs = told.signature_def["serving_default"].inputs

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "linear", "serving_default"
    request.inputs["features"].CopyFrom(tf.make_tensor_proto(X))
    received = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert received.inputs.keys() == set(inputs), "a server refuses other names"
    assert all(received.inputs[name].dtype == info.dtype for name, info in inputs.items())
    exported = Exported(path, received.model_spec.signature_name)
    found = exported.predict({name: tf.make_ndarray(value) for name, value in received.inputs.items()})
    answer = predict_pb2.PredictResponse()
    for name, value in found.items():
        answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    sent = predict_pb2.PredictResponse.FromString(answer.SerializeToString())
    assert sent.outputs.keys() == set(told.signature_def["serving_default"].outputs)
    np.testing.assert_allclose(tf.make_ndarray(sent.outputs["outputs"]), Y)
    exported.close()


@pytest.mark.long
def test_a_real_server_answers(path: str) -> None:
    program = shutil.which("tensorflow_model_server")
    if program is None:
        pytest.skip("there is no tensorflow_model_server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = str(pathlib.Path(path).parent)
    command = [program, "--port=0", f"--rest_api_port={port}", "--model_name=linear", f"--model_base_path={base}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        body = json.dumps({"instances": X.tolist()}).encode()
        deadline = time.monotonic() + 100
        while True:
            try:
                url = f"http://127.0.0.1:{port}/v1/models/linear:predict"
                with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
                    found = json.load(answer)["predictions"]
                break
            except (urllib.error.URLError, ConnectionError):
                assert server.poll() is None and time.monotonic() < deadline
                time.sleep(0.2)
        np.testing.assert_allclose(found, Y)
    finally:
        server.kill()
        server.wait()
