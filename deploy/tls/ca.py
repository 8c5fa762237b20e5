"""A private CA for the hosts of a job: makes it, issues a certificate for each host, and revokes them.

    python deploy/tls/ca.py init pki                        # a new CA; never replaces one
    python deploy/tls/ca.py issue pki host-a 10.0.0.1       # pki/hosts/host-a: its key, certificate, CA and CRL
    python deploy/tls/ca.py issue --renew pki host-a        # another key and certificate for the same names
    python deploy/tls/ca.py revoke pki host-a               # a new pki/crl.pem, also in each pki/hosts/*

Needs the program openssl (3.0 or newer).  Exit code 0: done; 2: a wrong argument, or something is in the way.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fcntl
import ipaddress
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_MOST_DAYS = 36500
_CURVE = "prime256v1"
_LONGEST_NAME = 64
"""Characters of a common name, by which a host's certificates are found."""

_CONFIG = """\
[ca]
default_ca = own
[own]
database = {ca}/index.txt
new_certs_dir = {ca}/issued
certificate = {ca}/ca.pem
private_key = {ca}/ca.key
serial = {ca}/serial
crlnumber = {ca}/crlnumber
default_md = sha256
default_crl_days = {crl_days}
unique_subject = no
policy = names
[names]
commonName = supplied
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[of_ca]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[of_host]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""


class CaError(Exception):
    """A request that is refused; the text is one line."""


def check_name(name: str) -> str:
    """Returns `DNS:name` or `IP:address`; raises CaError for anything else, such as a pattern."""
    with contextlib.suppress(ValueError):
        return f"IP:{ipaddress.ip_address(name)}"
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise CaError(f"{name[:80]!r} is not a host: use a DNS name or an IP address, without a port or a pattern.")
    return f"DNS:{name}"


def init(directory: pathlib.Path, days: int) -> str:
    """Makes a CA in a new directory."""
    if directory.exists():
        raise CaError(f"{directory} exists: a CA is never replaced; use another directory.")
    with _new_directory(directory) as made:
        (made / "issued").mkdir()
        (made / "hosts").mkdir()
        (made / "index.txt").touch()
        (made / "serial").write_text("01\n")
        (made / "crlnumber").write_text("01\n")
        with _config(made, "ps_train job CA", "DNS:none", days) as config:
            _make_key(made / "ca.key")
            request = str(made / "request.pem")
            _openssl("req", "-new", "-config", config, "-key", str(made / "ca.key"), "-out", request)
            _openssl("ca", "-batch", "-notext", "-selfsign", "-config", config, "-extensions", "of_ca", "-startdate",
                     _yesterday(), "-days", str(days), "-in", request, "-out", str(made / "ca.pem"))  # fmt: skip
            os.unlink(request)
            _make_crl(made, config)
    return f"made the CA {directory}: keep {directory / 'ca.key'} off the hosts of the job"


def issue(directory: pathlib.Path, names: Sequence[str], days: int, renew: bool) -> str:
    """Makes the key and certificate of a host in `hosts/NAME`."""
    alternatives = [check_name(name) for name in names]
    if len(names[0]) > _LONGEST_NAME:
        raise CaError(f"{names[0][:80]!r} has more than {_LONGEST_NAME} characters: use a shorter name of the host.")
    host = directory / "hosts" / names[0]
    with _locked(directory):
        if host.exists() and not renew:
            raise CaError(f"{host} exists: use --renew for another key and certificate, or revoke it first.")
        if not host.exists() and renew:
            raise CaError(f"{host} does not exist: there is nothing to renew; leave out --renew.")
        if renew and len(names) == 1:
            alternatives = _names_in(host / "cert.pem")
        with _new_directory(host) as made, _config(directory, names[0], ",".join(alternatives), days) as config:
            _make_key(made / "key.pem")
            request = str(made / "request.pem")
            _openssl("req", "-new", "-config", config, "-key", str(made / "key.pem"), "-out", request)
            _openssl("ca", "-batch", "-notext", "-config", config, "-extensions", "of_host", "-startdate", _yesterday(),
                     "-days", str(days), "-in", request, "-out", str(made / "cert.pem"))  # fmt: skip
            os.unlink(request)
            shutil.copy(directory / "ca.pem", made / "ca.pem")
            shutil.copy(directory / "crl.pem", made / "crl.pem")
            if renew:
                shutil.rmtree(host)
    return f"made {host}: copy its four files to the host, key.pem readable by its owner only"


def revoke(directory: pathlib.Path, name: str) -> str:
    """Revokes every certificate of a host, and gives all hosts the new list of revoked certificates."""
    check_name(name)
    host = directory / "hosts" / name
    with _locked(directory):
        lines = [line.split("\t") for line in (directory / "index.txt").read_text().splitlines()]
        serials = [line[3] for line in lines if line[0] == "V" and line[5] == f"/CN={name}"]
        revoked = [line[3] for line in lines if line[0] == "R" and line[5] == f"/CN={name}"]
        # A revocation that was interrupted is finished.
        if not serials and (not revoked or _are_listed(directory, revoked)):
            raise CaError(f"{directory} has no valid certificate of {name}: see {directory / 'index.txt'}.")
        with _config(directory, "none", "DNS:none", 1) as config:
            for serial in serials:
                _openssl("ca", "-config", config, "-revoke", str(directory / "issued" / f"{serial}.pem"))
            _make_crl(directory, config)
        if host.exists():
            shutil.rmtree(host)
        for other in (directory / "hosts").iterdir():
            shutil.copy(directory / "crl.pem", other / "crl.pem")
    count = len(serials or revoked)
    return (
        f"revoked {count} certificate{'s' if count > 1 else ''} of {name}: copy crl.pem to each host and reload "
        "stunnel there (SIGHUP)"
    )


@contextlib.contextmanager
def _locked(directory: pathlib.Path) -> Iterator[None]:
    """Keeps others out of a CA."""
    if not (directory / "ca.key").is_file():
        raise CaError(f"{directory} is not a CA: make one with `init {directory}`.")
    with open(directory / "ca.key") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _new_directory(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a private directory, which gets its name when it is complete."""
    try:
        made = pathlib.Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    except OSError as error:
        raise CaError(f"{directory} cannot be made ({error.strerror}): use another place.") from None
    try:
        yield made
        made.rename(directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def _config(directory: pathlib.Path, name: str, names: str, days: int) -> Iterator[str]:
    """Gives the path of a configuration of openssl."""
    path = str(directory.absolute())
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", path):
        raise CaError(f"{path!r} has characters that openssl's configuration cannot hold: use letters, digits, /.-_+")
    with tempfile.NamedTemporaryFile("w", suffix=".cnf") as file:
        crl_days = _MOST_DAYS  # a list that expires would stop every connection
        file.write(_CONFIG.format(ca=path, name=name, names=names, days=days, crl_days=crl_days))
        file.flush()
        yield file.name


def _make_key(path: pathlib.Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{_CURVE}", "-out", str(path))


def _make_crl(directory: pathlib.Path, config: str) -> None:
    options = ("-gencrl", "-crl_lastupdate", _yesterday(), "-out", str(directory / "crl.pem"))
    _openssl("ca", "-config", config, *options)


def _are_listed(directory: pathlib.Path, serials: Sequence[str]) -> bool:
    """Returns whether every list of revoked certificates is the same, and has all these."""
    own = directory / "crl.pem"
    listed = re.findall(r"Serial Number: ([0-9A-F]+)", _openssl("crl", "-in", str(own), "-noout", "-text"))
    others = [host / "crl.pem" for host in (directory / "hosts").iterdir()]
    return {*serials} <= {*listed} and all(path.read_bytes() == own.read_bytes() for path in others)


def _yesterday() -> str:
    """Returns the time from which on certificates are valid: a host's clock may be late."""
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).strftime("%Y%m%d%H%M%SZ")


def _names_in(certificate: pathlib.Path) -> list[str]:
    """Returns the names of a certificate as a configuration takes them."""
    text = _openssl("x509", "-in", str(certificate), "-noout", "-ext", "subjectAltName")
    return [name.replace("IP Address:", "IP:") for name in re.findall(r"(?:DNS|IP Address):[^,\s]+", text)]


def _openssl(*arguments: str) -> str:
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise CaError("the program openssl is not there: install it (Debian: apt-get install openssl).") from None
    if done.returncode:
        raise CaError(f"openssl {arguments[0]} failed: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


def _days(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,4}", text) or int(text) > _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of days: use 1 to {_MOST_DAYS}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ca.py", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, days in (("init", 3650), ("issue", 397), ("revoke", None)):
        command = commands.add_parser(name)
        command.add_argument("directory", type=pathlib.Path, help="the directory of the CA")
        if days:
            command.add_argument("--days", type=_days, default=days, help=f"days until it expires ({days})")
    commands.choices["issue"].add_argument(
        "names", nargs="+", metavar="HOST", help="the host as in the flagfile; more names"
    )
    commands.choices["issue"].add_argument(
        "--renew", action="store_true", help="replace the host's key and certificate"
    )
    commands.choices["revoke"].add_argument("name", metavar="HOST", help="the host")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    given = _parser().parse_args(arguments)
    os.umask(0o077)
    for number in (signal.SIGTERM, signal.SIGHUP):  # ends as ctrl-C does: no unfinished directory with a key stays
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        if given.command == "init":
            line = init(given.directory, given.days)
        elif given.command == "issue":
            line = issue(given.directory, given.names, given.days, given.renew)
        else:
            line = revoke(given.directory, given.name)
    except (CaError, OSError) as error:
        print(f"ca.py: error: {error}", file=sys.stderr)
        return 2
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
