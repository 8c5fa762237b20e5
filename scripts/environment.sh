# Sourced by the run_*.sh: the virtual environment in .venv, made when it is missing.
# Set PYTHON to choose the interpreter it is made of, and venv after sourcing to choose another folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

venv=$root/.venv

# prepare_environment EXTRAS [REQUIREMENT ...]: makes the environment and installs the package, with the extras and
# further requirements, unless that is done already.
# pip shows its progress: bars on a terminal, otherwise a line for each package.
prepare_environment() {
  local python=${PYTHON:-python3}
  is_installed "$1" && return
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "ps_train: error: $python is not Python 3.10 or newer: set PYTHON to an interpreter that is." >&2
    exit 2
  fi
  mkdir -p "$venv"
  exec 9>"$venv/.installing" # stays where an installation was interrupted
  if ! flock --nonblock 9; then
    echo "waiting for another process, which installs into ${venv#"$root/"}"
    flock 9
  fi
  is_installed "$1" || install "$python" "$@"
  rm -f "$venv/.installing"
  exec 9>&-
}

# is_installed EXTRAS: succeeds if the package was installed, with these extras or more of them, as setup.py is now.
is_installed() {
  local done_file
  for done_file in "$venv/.installed"*"$1"; do
    if [ -e "$done_file" ] && [ ! "$root/setup.py" -nt "$done_file" ]; then
      return 0
    fi
  done
  return 1
}

# install PYTHON EXTRAS [REQUIREMENT ...]: makes the environment unless it is complete, and installs the package.
install() {
  local python=$1 extras=$2
  shift 2
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "making the virtual environment ${venv#"$root/"}"
    if ! "$python" -m venv "$venv"; then
      echo "ps_train: error: $python could not make $venv: see the lines above." >&2
      exit 2
    fi
  fi
  echo "installing ps_train$extras into ${venv#"$root/"} (TensorFlow is about 600 MB: this takes a minute or more)"
  local pip=("$venv/bin/python" -m pip install --disable-pip-version-check --no-input)
  [ -t 1 ] || pip+=(--progress-bar off)
  if ! "${pip[@]}" --editable "$root$extras" "$@"; then
    echo "ps_train: error: pip could not install ps_train$extras: see the lines above; the next start tries again." >&2
    exit 2
  fi
  touch "$venv/.installed$extras"
}

# prepare_if_missing: makes .venv if no interpreter has the packages that ps_train needs.
prepare_if_missing() {
  local has='import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("absl", "numpy", "tensorflow"))))'
  if [ -e "$venv/.installing" ] || ! "$(installed_python)" -c "$has" 2>/dev/null; then
    prepare_environment ""
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

# installed_python: the interpreter of the environment, else the one on PATH.
installed_python() {
  if [ -x "$venv/bin/python" ]; then
    echo "$venv/bin/python"
  else
    command -v "${PYTHON:-python3}"
  fi
}
