"""Asks the service of this container whether it can work, and prints what it says; exit code 0 when it can.

Ingest answers on the first port, the other services on the second. Written to start in a few milliseconds.
"""

import contextlib
import os
import socket
import sys

PORTS = (os.environ.get("LEEWAY_PORT", "8000"), os.environ.get("LEEWAY_METRICS_PORT", "9100"))  # noqa: TID251  asked every five seconds, so it loads nothing of ours
TIMEOUT_S = 2


def asked(port: int) -> tuple[bool, str]:
    """Whether the answer was 200, and its text. Raises OSError when nobody listens."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as service:
        service.sendall(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        head, _, text = b"".join(iter(lambda: service.recv(4096), b"")).partition(b"\r\n\r\n")
    return b" 200 " in head.partition(b"\r\n")[0], text.decode(errors="replace").strip()


def main() -> int:
    for port in PORTS:
        with contextlib.suppress(ConnectionRefusedError):
            healthy, said = asked(int(port))
            sys.stdout.write(f"{said}\n")
            return 0 if healthy else 1
    sys.stdout.write("nobody listens yet\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
