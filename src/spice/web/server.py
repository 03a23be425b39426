"""Serving the explorer on this machine, until Ctrl-C."""

import socket
import webbrowser
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from spice.errors import UserError
from spice.web.security import Guard

LOCAL = "127.0.0.1"


def serve(
    app: ASGIApp,
    *,
    host: str = LOCAL,
    port: int = 0,
    announce: Callable[[str], None],
    browse: bool = True,
) -> None:
    """Serve `app` until the user stops it. `announce` is given the address as soon as it can be opened.

    Args:
        host: an address of this machine. Anything but 127.0.0.1 lets other machines in, if they know the token.
        port: 0 takes a free one.
    """
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    hosts = {f"{name}:{port}" for name in {shown, *(("localhost",) if host == LOCAL else ())}}
    guard = Guard(app, hosts=hosts, cookie=f"spice-{port}")
    address = f"http://{shown}:{port}/?token={guard.token}"
    settings = uvicorn.Config(
        guard, log_level="critical", access_log=False, server_header=False, timeout_graceful_shutdown=1, lifespan="off"
    )
    server = _Server(settings, lambda: _started(address, announce, browse))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn ends in order, and then passes the signal on
        pass
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """Tells when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _started(address: str, announce: Callable[[str], None], browse: bool) -> None:
    announce(address)
    if browse:
        webbrowser.open(address)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(f"cannot serve on {host} port {port}: {error}; try another --port or --host") from None
    return listening
