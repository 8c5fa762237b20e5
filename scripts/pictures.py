"""Makes the pictures of docs/pictures from a real job: the status page and TensorBoard in a headless Chromium.

    python -m scripts.pictures                         # starts a job of its own on this machine
    python -m scripts.pictures --address=http://127.0.0.1:41573/ --model_dir=runs/digits-async

It needs the extra `dev` and Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image

from tests.support.machine.ports import free_ports
from tests.support.status.page import make_driver, missing_browser

ROOT = pathlib.Path(__file__).parents[1]
MOST_BYTES = 250_000
JOB = ["--model=ps_train.models.digits:Digits", "--update=bounded", "--num_ps=2", "--num_workers=3", "--log_secs=0.5"]
JOB += ["--max_steps=1000000", "--save_steps=2000", "--summary_steps=200", "--max_restarts=3"]
SCREENS = [
    ("status-light", 1280, 2600, "light"),
    ("status-dark", 1280, 2600, "dark"),
    ("status-phone", 360, 2000, "light"),
]
"""Name of a picture, width and greatest height in pixels, and colour scheme."""
TAGS = "^loss|examples_per_sec|staleness/mean/all|waiting"
FAULT = "--inject_fault=kill:worker:2@1000"


def eventually(condition: Callable[[], Any], what: str, within_secs: float = 90.0) -> Any:
    """Returns the first true value of `condition`."""
    deadline = time.monotonic() + within_secs
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {within_secs:g}s")
        time.sleep(0.2)
    return value


@contextlib.contextmanager
def started(command: list[str], folder: pathlib.Path, log: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program in a folder, its output in `log`, until the end of the block."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


@contextlib.contextmanager
def running_job(directory: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """Runs a job and returns the address of its page and its model_dir."""
    log, name = directory / "job.log", "digits-bounded"  # a relative path: the pictures show none of this machine
    command = [sys.executable, "-m", "ps_train", *JOB, FAULT, "--status_port=0", f"--model_dir={name}"]
    with started(command, directory, log) as process:

        def address() -> str | None:
            if process.poll() is not None:
                raise RuntimeError(f"the job ended:\n{log.read_text()}")
            found = re.search(r"status   (http://\S+)", log.read_text())
            return found[1] if found else None

        yield eventually(address, "the address of the page"), directory / name


def save(driver: Any, path: pathlib.Path) -> None:
    """Writes a screenshot with as many colours as fit into the limit of a picture."""
    driver.save_screenshot(str(path))
    with Image.open(path) as full:
        picture = full.convert("RGB")
    for colors in (256, 128, 64, 32):
        picture.quantize(colors, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < MOST_BYTES:
            print(f"{path}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB")
            return
    raise ValueError(f"{path} has {path.stat().st_size} bytes, more than {MOST_BYTES}")


def emulate(driver: Any, width: int, height: int, scheme: str, is_phone: bool = False) -> None:
    """Sets the size of the screen and the colour scheme."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def picture_page(driver: Any, address: str, out: pathlib.Path, secs: float) -> None:
    """Takes the status page in light and dark and on a phone, after so many seconds of training."""
    emulate(driver, 1280, 1000, "light")
    driver.get(address)
    eventually(
        lambda: driver.execute_script("return (last.status?.elapsed_secs ?? 0) > arguments[0]", secs), "time", 600
    )
    eventually(lambda: driver.execute_script("return last.status.state === 'training'"), "a state of training")
    for name, width, most, scheme in SCREENS:
        emulate(driver, width, 800, scheme, is_phone=width < 500)
        height = driver.execute_script("return document.documentElement.scrollHeight")
        emulate(driver, width, min(height, most), scheme, is_phone=width < 500)
        driver.execute_script("window.scrollTo(0, 0)")
        time.sleep(1)  # a frame of the new size
        save(driver, out / f"{name}.png")


def picture_tensorboard(driver: Any, model_dir: pathlib.Path, out: pathlib.Path, log: pathlib.Path) -> None:
    """Takes the dashboards of TensorBoard that show something of a job."""
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        f"--logdir={model_dir.name}",
        f"--port={port}",
        "--load_fast=false",
    ]
    with started(command, model_dir.absolute().parent, log):
        eventually(lambda: "http://" in log.read_text(), "TensorBoard")
        for name, dashboard, word in (
            ("tensorboard-scalars", f"scalars&tagFilter={TAGS}", "examples_per_sec"),
            ("tensorboard-histograms", "histograms", "staleness/histogram"),
            ("tensorboard-text", "text", "--update"),
        ):
            emulate(driver, 1280, 1000, "light")
            driver.get("about:blank")
            driver.get(f"http://127.0.0.1:{port}/#{dashboard}")
            eventually(lambda word=word: word in shown_text(driver), f"{word} in {dashboard}")  # type: ignore[misc]
            time.sleep(4)  # charts are drawn after their titles
            save(driver, out / f"{name}.png")


def shown_text(driver: Any) -> str:
    """Returns all text of a page, that inside of its web components too."""
    script = """const text = (node) => [...node.childNodes].map((child) =>
      child.nodeType === 3 ? child.textContent : text(child)).join("") + (node.shadowRoot ? text(node.shadowRoot) : "");
      return text(document.body)"""
    return str(driver.execute_script(script))


def main() -> None:
    """Makes all pictures, or those for which an address or a directory is given."""
    parser = argparse.ArgumentParser(description="Makes the pictures of docs/pictures.")
    parser.add_argument("--address", help="address of the page of a running job")
    parser.add_argument("--model_dir", type=pathlib.Path, help="directory with the event files of a job")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "pictures", help="where the pictures go")
    parser.add_argument("--secs", type=float, default=60.0, help="how long the job trains before its picture")
    options = parser.parse_args()
    if reason := missing_browser():
        sys.exit(reason)
    options.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        address, model_dir = options.address, options.model_dir
        if address is None and model_dir is None:
            address, model_dir = stack.enter_context(running_job(directory))
        driver = make_driver(1280, 1000, directory / "profile")
        stack.callback(driver.quit)
        if address is not None:
            picture_page(driver, address, options.out, options.secs)
        if model_dir is not None:
            picture_tensorboard(driver, model_dir, options.out, directory / "tensorboard.log")


if __name__ == "__main__":
    main()
