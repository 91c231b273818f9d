"""The address of a server: listening on it, and the names under which it may be called."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from nptad.errors import InputError

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; 0 stands for any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, port), family=family, backlog=128)
        # Connections inherit it. asyncio does not set it for sockets that are not its own, and the body of an answer
        # would wait 40 ms for the acknowledgement of its head.
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} is in use, perhaps by another server of nptad; try --port {port + 1}."
            ) from error
        raise InputError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error


def is_loopback(host: str) -> bool:
    """True for an address that only this machine can reach.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_for(host: str) -> frozenset[str]:
    """The names under which a server on this address may be called."""
    if is_loopback(host):
        return LOOPBACK_HOSTS | {url_host(host)}
    machine = socket.gethostname().lower()
    return LOOPBACK_HOSTS | {url_host(host), machine, f"{machine}.local"}


def url_host(host: str) -> str:
    """An address as it stands in a URL.

    >>> url_host("::1"), url_host("Example.org")
    ('[::1]', 'example.org')
    """
    return f"[{host}]" if ":" in host else host.lower()


def called_name(header: str) -> str:
    """The name in a Host header, without the port; empty if there is none.

    >>> called_name("Localhost:8765"), called_name("[::1]:80"), called_name("[")
    ('localhost', '[::1]', '')
    """
    try:
        return url_host(urlsplit(f"//{header}").hostname or "")
    except ValueError:
        return ""
