# Sourced by the run_*.sh: the virtual environment in .venv, made when it is missing.
# Set PYTHON to choose the interpreter it is made of.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# prepare_environment EXTRAS: makes .venv and installs the package, with the extras, unless that is done already.
prepare_environment() {
  local python=${PYTHON:-python3} done_file="$root/.venv/.installed$1"
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "ps_train: error: $python is not Python 3.10 or newer: set PYTHON to an interpreter that is." >&2
    exit 2
  fi
  if [ ! -x "$root/.venv/bin/python" ]; then
    echo "making the virtual environment .venv"
    "$python" -m venv "$root/.venv"
  fi
  if [ ! -e "$done_file" ] || [ "$root/setup.py" -nt "$done_file" ]; then
    echo "installing ps_train$1 into .venv (TensorFlow is large: this takes about a minute)"
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root$1"
    touch "$done_file"
  fi
}

# prepare_browser: installs Chromium from Debian for the browser tests where that is possible, else says why it is not.
prepare_browser() {
  local skipped="the browser tests will be skipped"
  if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    return 0
  elif ! command -v apt-get >/dev/null; then
    echo "$skipped: no chromium and no apt-get on this machine"
  elif [ "$(id -u)" != 0 ]; then
    echo "$skipped: no chromium, and only root can install it: apt-get install chromium chromium-driver"
  else
    echo "installing chromium for the browser tests"
    local apt=(timeout 300 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o DPkg::Lock::Timeout=30)
    export DEBIAN_FRONTEND=noninteractive
    "${apt[@]}" update >/dev/null 2>&1 || true # an old list may do
    "${apt[@]}" install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null 2>&1 ||
      echo "$skipped: apt-get could not install chromium (no network?)"
  fi
}

# installed_python: the interpreter of .venv, else the one on PATH.
installed_python() {
  if [ -x "$root/.venv/bin/python" ]; then
    echo "$root/.venv/bin/python"
  else
    command -v "${PYTHON:-python3}"
  fi
}
