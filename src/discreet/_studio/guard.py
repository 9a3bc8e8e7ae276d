"""The settings of a studio, and the checks before every page: host, token, origin, size, headers."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib.resources.abc import Traversable
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet._interop import reproductions

MEGABYTE = 1_000_000
FORM_LIMIT = 200_000
"""The most bytes of a form without a file."""
MULTIPART_OVERHEAD = 20_000
UPLOAD = "/release/upload"
SAFE = {"GET", "HEAD"}
MAX_SESSIONS = 64

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class StudioSettings:
    """The settings of one running studio, fixed before the first request.

    ``ledger``: the address of the ledger that releases are charged to, or None. ``data``: a folder whose
    files and tables may be chosen. ``port``: the one that browsers use, since Host and Origin are compared
    with it. ``token``: the secret in the printed address. ``gallery``: the folder of reproduced figures, or
    None.
    """

    port: int
    ledger: str | None = None
    data: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    upload_limit: int = 64 * MEGABYTE
    gallery: Traversable | None = field(default_factory=partial(reproductions, "gallery"), repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The allowed values of the Host header: an attacker may make other names resolve to this machine."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(f"http://{host}" for host in self.hosts)

    @property
    def address(self) -> str:
        """The address that opens the studio."""
        return f"{self.origins[0]}/?token={self.token}"


class Refused(Exception):
    """A refused request; its text is for the page and quotes nothing of the request."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status, self.title, self.text = status, title, text

    def page(self) -> HTMLResponse:
        """Return a page without style, script or secret, which anybody may see."""
        again = '<p><a href="/">Go to the studio</a></p>' if self.status not in (400, 500) else ""
        return HTMLResponse(
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"></head>'
            f"<body><main><h1>{escape(self.title)}</h1><p>{escape(self.text)}</p>{again}</main></body></html>",
            self.status,
        )


class Sessions:
    """The sessions that have shown the token, as random names in a cookie, while the studio runs."""

    def __init__(self, settings: StudioSettings) -> None:
        # Cookies of one host are shared by all its ports, so the name says the port.
        self.cookie = f"discreet-studio-{settings.port}"
        self._token = settings.token.encode()
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._ticket: bytes | None = None

    def ticket(self) -> str:
        """A token that opens only one session.

        One token must not open more, because all users of the machine can see a browser's command line.
        """
        text = secrets.token_urlsafe(32)
        self._ticket = text.encode()
        return text

    def fits(self, token: str) -> bool:
        shown = token.encode()
        if self._ticket is not None and hmac.compare_digest(shown, self._ticket):
            self._ticket = None
            return True
        return hmac.compare_digest(shown, self._token)

    def start(self) -> str:
        name = secrets.token_urlsafe(32)
        self._known[name] = None
        while len(self._known) > MAX_SESSIONS:
            self._known.popitem(last=False)
        return name

    def of(self, request: Request) -> str | None:
        """Return the session of a request; it is compared with all sessions, each in constant time."""
        shown = request.cookies.get(self.cookie, "").encode()
        sessions = [name for name in list(self._known) if hmac.compare_digest(shown, name.encode())]
        return sessions[0] if sessions else None

    def csrf(self, session: str) -> str:
        """Return the secret of the forms of a session."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def check_csrf(self, session: str, shown: str) -> None:
        if not hmac.compare_digest(shown.encode(), self.csrf(session).encode()):
            raise Refused(
                403,
                "The form is not from this session",
                "Nothing was done. Open the page of the form again and send it from there.",
            )


class Guard:
    """Middleware around the whole application; no route is reached without passing it."""

    def __init__(self, app: ASGIApp, settings: StudioSettings, sessions: Sessions) -> None:
        self.app, self.settings, self.sessions = app, settings, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                is_cacheable = scope["path"].startswith("/static/") and message["status"] in (200, 304)
                cached = {"Cache-Control": "no-cache" if is_cacheable else "no-store"}
                MutableHeaders(scope=message).update({**HEADERS, **cached})
            await send(message)

        body = self._body(scope["path"], receive)
        try:
            answer = self._check(scope, body)
            if answer is None:
                await self.app(scope, body, with_headers)
                return
        except Refused as refusal:
            if scope["method"] not in SAFE or body.seen > body.limit:
                await body.drain()
            answer = refusal.page()
        except ClientDisconnect:
            return
        except Exception as error:
            # The message of an unforeseen error may quote data: its type is printed here, nothing is sent.
            print(f"discreet studio: internal error ({type(error).__name__})", file=sys.stderr)
            text = "An unexpected error occurred; no details are shown here."
            answer = Refused(500, "Something went wrong", text).page()
        if not started:
            await answer(scope, receive, with_headers)

    def _check(self, scope: Scope, body: _Limited) -> Response | None:
        """Return the response to a request that goes no further, or None; raise if it is refused."""
        request = Request(scope)
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.settings.hosts:
            raise Refused(400, "Wrong host", "The studio answers to its own address on this machine only.")
        strange = Refused(403, "Wrong origin", "The request does not come from a page of this studio.")
        if request.method not in SAFE and not self._is_ours(request.headers):
            raise strange
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in pairs if name == "token"]
        if tokens and request.method in SAFE:
            return self._enter(request.url.path, pairs, tokens)
        session = self.sessions.of(request)
        if session is None:
            raise Refused(
                401,
                "Open the studio with its address",
                "Open the address that discreet studio printed when it started; it holds a token that "
                "changes with every start.",
            )
        # Pages of other ports of this machine count as the same site, so they send our cookie along.
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise strange
        scope["session"] = session
        try:
            length = int(request.headers.get("content-length", "0"))
        except ValueError:
            raise Refused(400, "Malformed request", "The length of the request is not a number.") from None
        if length > body.limit:
            raise body.refusal
        kind = request.headers.get("content-type", "").lower().replace('"', "")
        if "charset" in kind and not kind.endswith("charset=utf-8"):  # some decode to what no text may hold
            raise Refused(415, "Malformed request", "A form must be sent in UTF-8.")
        return None

    def _is_ours(self, headers: Headers) -> bool:
        """Return whether a form was sent from a page of this studio.

        Under ``Referrer-Policy: no-referrer`` browsers write ``Origin: null`` on plain forms; the header
        Sec-Fetch-Site, which no page can set, then says where the form came from.
        """
        origins = headers.getlist("origin")
        if origins in ([], ["null"]):
            return headers.getlist("sec-fetch-site") == ["same-origin"]
        return all(origin in self.settings.origins for origin in origins)

    def _enter(self, path: str, pairs: list[tuple[str, str]], tokens: list[str]) -> Response:
        if len(tokens) != 1 or not self.sessions.fits(tokens[0]):
            raise Refused(
                403,
                "Wrong token",
                "This address is incomplete or from an earlier studio. Use the one that was printed last.",
            )
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        # The path is ours again, so "//elsewhere" must not become the address of another host.
        target = "/" + path.lstrip("/\\") + (f"?{rest}" if rest else "")
        answer = RedirectResponse(target, status_code=303)
        name = self.sessions.start()
        answer.set_cookie(self.sessions.cookie, name, httponly=True, samesite="strict", path="/")
        return answer

    def _body(self, path: str, receive: Receive) -> _Limited:
        if path != UPLOAD:
            text = f"A form may hold up to {FORM_LIMIT // 1000} kB."
            return _Limited(receive, FORM_LIMIT, Refused(413, "Too much text", text))
        most = self.settings.upload_limit
        text = (
            f"An upload may be up to {most / MEGABYTE:g} MB. Nothing was kept. Put larger files into a "
            "folder and start the studio with --data FOLDER."
        )
        return _Limited(receive, most + MULTIPART_OVERHEAD, Refused(413, "The file is too large", text))


class _Limited:
    """A request body whose bytes are counted as they arrive, so that memory stays bounded."""

    def __init__(self, receive: Receive, limit: int, refusal: Refused) -> None:
        self.receive, self.limit, self.refusal = receive, limit, refusal
        self.seen, self.done = 0, False

    async def __call__(self) -> Message:
        message = await self._next()
        if self.seen > self.limit:
            raise self.refusal
        return message

    async def drain(self) -> None:
        """Read and discard the rest of the body, up to a limit.

        A browser shows our answer only when its upload has ended.
        """
        while not self.done and self.seen <= 4 * self.limit + FORM_LIMIT:
            await self._next()

    async def _next(self) -> Message:
        message = await self.receive()
        self.seen += len(message.get("body", b""))
        self.done = message["type"] != "http.request" or not message.get("more_body", False)
        return message
