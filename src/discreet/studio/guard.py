"""What stands before every page: host, token, origin, size; and the headers that every answer carries."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
from collections import OrderedDict
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.studio.settings import MEGABYTE, StudioSettings

FORM_LIMIT = 200_000
"""Bytes of a form without a file."""
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


class Refused(Exception):
    """A request that is not answered; the text is for the page and quotes nothing of the request."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status, self.title, self.text = status, title, text


class Sessions:
    """Who has shown the token: random names in a cookie, forgotten when the studio ends."""

    def __init__(self, settings: StudioSettings) -> None:
        # Cookies of one host are shared by all its ports, so the name says the port.
        self.cookie = f"discreet-studio-{settings.port}"
        self._token = settings.token.encode()
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._ticket: bytes | None = None

    def ticket(self) -> str:
        """A token that opens one session: command lines of browsers are seen by everybody on the machine."""
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
        """The session of a request; every known name is compared, each in constant time."""
        shown = request.cookies.get(self.cookie, "").encode()
        found = None
        for name in list(self._known):
            if hmac.compare_digest(shown, name.encode()):
                found = name
        return found

    def csrf(self, session: str) -> str:
        """The secret of the forms of a session."""
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
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not (scope["path"].startswith("/static/") and message["status"] in (200, 304)):
                    headers["Cache-Control"] = "no-store"
                else:
                    headers["Cache-Control"] = "no-cache"
            await send(message)

        body = _Limited(receive, self._limit(scope["path"]))
        try:
            answer = self._check(scope)
            if answer is None:
                await self.app(scope, body, with_headers)
                return
        except _TooMuch:
            await body.drain()
            answer = refusal_page(self._too_large(body.limit))
        except Refused as refusal:
            if scope["method"] not in SAFE:
                await body.drain()
            answer = refusal_page(refusal)
        except ClientDisconnect:
            return
        except Exception as error:
            # The message of an unforeseen error may quote data: its type is printed here, nothing is sent.
            print(f"discreet studio: internal error ({type(error).__name__})", file=sys.stderr)
            answer = refusal_page(
                Refused(500, "Something went wrong", "An unforeseen error; nothing more is shown here.")
            )
        if not started:
            await answer(scope, receive, with_headers)

    def _check(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further, or None; what is refused raises."""
        request = Request(scope)
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.settings.hosts:
            raise Refused(400, "Wrong host", "The studio answers to its own address on this machine only.")
        if request.method not in SAFE:
            self._check_origin(request.headers)
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
            raise Refused(403, "Wrong origin", "The request does not come from a page of this studio.")
        scope["session"] = session
        try:
            length = int(request.headers.get("content-length", "0"))
        except ValueError:
            raise Refused(400, "Malformed request", "Its length is not a number.") from None
        limit = self._limit(scope["path"])
        if length > limit:
            raise self._too_large(limit)
        kind = request.headers.get("content-type", "").lower().replace('"', "")
        if "charset" in kind and not kind.endswith("charset=utf-8"):  # some decode to what no text may hold
            raise Refused(415, "Malformed request", "A form is sent in UTF-8.")
        return None

    def _check_origin(self, headers: Headers) -> None:
        """The page that sends a form must be ours.

        Under ``Referrer-Policy: no-referrer`` browsers write ``Origin: null`` on plain forms; they then say
        in Sec-Fetch-Site, which no page can set, where the form came from.
        """
        origins = headers.getlist("origin")
        if origins and all(origin in self.settings.origins for origin in origins):
            return
        if origins in ([], ["null"]) and headers.getlist("sec-fetch-site") == ["same-origin"]:
            return
        raise Refused(403, "Wrong origin", "The request does not come from a page of this studio.")

    def _enter(self, path: str, pairs: list[tuple[str, str]], tokens: list[str]) -> Response:
        if len(tokens) != 1 or not self.sessions.fits(tokens[0]):
            raise Refused(
                403,
                "Wrong token",
                "This address is of an earlier start, or incomplete. Use the one that was printed last.",
            )
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        # The path is ours again, so "//elsewhere" must not become the address of another host.
        target = "/" + path.lstrip("/\\") + (f"?{rest}" if rest else "")
        answer = RedirectResponse(target, status_code=303)
        answer.set_cookie(
            self.sessions.cookie, self.sessions.start(), httponly=True, samesite="strict", path="/"
        )
        return answer

    def _limit(self, path: str) -> int:
        return self.settings.upload_limit + MULTIPART_OVERHEAD if path == UPLOAD else FORM_LIMIT

    def _too_large(self, limit: int) -> Refused:
        if limit == FORM_LIMIT:
            return Refused(413, "Too much text", f"A form may hold up to {FORM_LIMIT // 1000} kB.")
        most = f"{self.settings.upload_limit / MEGABYTE:g} MB"
        return Refused(
            413,
            "The file is too large",
            f"An upload may be up to {most}. Nothing was kept. Put larger files into a folder and start the "
            "studio with --data FOLDER.",
        )


class _TooMuch(Exception):
    """More bytes than a body may have."""


class _Limited:
    """A body that is counted while it arrives, so that nothing larger is ever held."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.receive, self.limit, self.seen, self.done = receive, limit, 0, False

    async def __call__(self) -> Message:
        message = await self.receive()
        if message["type"] == "http.request":
            self.seen += len(message.get("body", b""))
            self.done = not message.get("more_body", False)
            if self.seen > self.limit:
                raise _TooMuch
        else:
            self.done = True
        return message

    async def drain(self) -> None:
        """Reads on and forgets, within reason: a browser shows our answer only when its upload has ended."""
        while not self.done and self.seen <= 4 * self.limit + FORM_LIMIT:
            message: Any = await self.receive()
            self.seen += len(message.get("body", b""))
            self.done = message["type"] != "http.request" or not message.get("more_body", False)


def refusal_page(refusal: Refused) -> HTMLResponse:
    """A page without style, script or secret: who sees it may be anybody."""
    again = '<p><a href="/">Go to the studio</a></p>' if refusal.status not in (400, 500) else ""
    return HTMLResponse(
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(refusal.title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head>'
        f"<body><main><h1>{escape(refusal.title)}</h1><p>{escape(refusal.text)}</p>{again}</main></body></html>",
        refusal.status,
    )
