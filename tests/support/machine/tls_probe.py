"""A client of a gRPC server behind TLS: `python tls_probe.py HOST PORT [KEYS]` prints the bytes that it was given.

KEYS is a directory with cert.pem and key.pem; "plain" is a connection without TLS.
"""

from __future__ import annotations

import socket
import ssl
import sys

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""The beginning of a connection in HTTP/2; a gRPC server answers with its settings."""


def probe(host: str, port: int, keys: str) -> bytes:
    connection = socket.create_connection((host, port), timeout=3)
    if keys != "plain":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the server must judge the client
        if keys:
            context.load_cert_chain(f"{keys}/cert.pem", f"{keys}/key.pem")
        connection = context.wrap_socket(connection)
    connection.sendall(GREETING)
    return connection.recv(1 << 16)


if __name__ == "__main__":
    try:
        received = probe(sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or [""])[0])
        print(f"received {len(received)} bytes")
    except OSError as error:  # ssl.SSLError is one
        print(f"received 0 bytes: {error}")
