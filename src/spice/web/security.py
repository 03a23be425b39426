"""Access control: only the browser that opened the printed address may use the explorer.

The address contains a token that works once; it is exchanged for a cookie. A request must name a host that we serve
(against DNS rebinding), and must not come from a page of another origin.
"""

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
LONGEST_BODY = 32 << 20  # bytes: enough for an example image, or the rows of a million selected images


class Guard:
    """Passes on to `app` only requests from the user's own page."""

    def __init__(self, app: ASGIApp, *, hosts: set[str], cookie: str) -> None:
        self._app, self._hosts, self._cookie = app, hosts, cookie
        self.token = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(32)
        self._used = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that does not reach the app; None for one that does."""
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("unknown host", 403)
        if not self._same_origin(scope["method"], headers):
            return PlainTextResponse("requests from other pages are refused", 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LONGEST_BODY or "transfer-encoding" in headers:
            return PlainTextResponse("too long", 413)
        known = self._has_cookie(headers)
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] == "/" and tokens and scope["method"] == "GET":
            if known or self._accept(tokens[0]):
                return self._admitted()
            return PlainTextResponse("This address has been used before. For a new one, run spice open again.", 403)
        return None if known else PlainTextResponse("Open the address that spice open printed.", 403)

    def _same_origin(self, method: str, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None and method not in ("GET", "HEAD"):
            return False  # browsers send the origin with every request that changes something
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self._hosts}:
            return False
        return headers.get("sec-fetch-site", "none") in ("none", "same-origin")

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self._session.encode())

    def _accept(self, token: str) -> bool:
        """Whether this is the token, and it has not been used before."""
        if self._used or not secrets.compare_digest(token.encode(), self.token.encode()):
            return False
        self._used = True
        return True

    def _admitted(self) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer
