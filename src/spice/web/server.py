"""Serving the explorer on this machine, until Ctrl-C."""

import socket
from collections.abc import Callable
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from spice.errors import UserError
from spice.web.security import Guard

LOCAL = "127.0.0.1"


class Server(uvicorn.Server):
    """Serves `app` to the browser that is given `address`.

    Args:
        host: an address of this machine. Anything but 127.0.0.1 lets other machines in, if they know the token; 0.0.0.0
            and :: stand for all its addresses.
        port: 0 takes a free one.
    """

    def __init__(self, app: ASGIApp, *, host: str = LOCAL, port: int = 0) -> None:
        self._listening = _listen(host, port)
        port = self._listening.getsockname()[1]
        names = _names(host)
        guard = Guard(app, hosts={f"{name}:{port}" for name in names}, cookie=f"spice-{port}")
        self.address = f"http://{names[0]}:{port}/?token={guard.token}"
        super().__init__(
            uvicorn.Config(
                guard, log_level="critical", access_log=False, server_header=False, timeout_graceful_shutdown=1,
                lifespan="off",
            )
        )  # fmt: skip

    def serve_until_stopped(self, ready: Callable[[], None]) -> None:
        """Serve until Ctrl-C or `stop`; `ready` is called as soon as the address can be opened."""
        self._ready = ready
        try:
            self.run(sockets=[self._listening])
        except KeyboardInterrupt:  # uvicorn shuts down, then raises the signal again
            pass
        finally:
            self._listening.close()

    def stop(self) -> None:
        """From another thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _names(host: str) -> list[str]:
    """The host names that browsers may use for this machine; the first is printed."""
    try:
        all_addresses = ip_address(host).is_unspecified
    except ValueError:  # a name
        all_addresses = False
    if not all_addresses:
        return [f"[{host}]" if ":" in host else host.lower(), *(["localhost"] if host == LOCAL else [])]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; shows the address that this machine uses in the network
            own = probe.getsockname()[0]
        except OSError:  # no network
            own = LOCAL
    return [own, socket.gethostname().lower(), LOCAL, "localhost"]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(f"cannot serve on {host} port {port}: {error}; try another --port or --host") from None
    return listening
