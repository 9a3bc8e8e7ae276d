"""``python tests/evidence/openapi.py SCHEMATHESIS [--examples N]``: schemathesis against a studio.

SCHEMATHESIS is the command of an environment of its own (``pip install schemathesis``). A studio with a new
ledger serves on a free port. The tool is given its pages, the fields of its forms and a session
that is signed in: requests reach the pages behind the guard. No answer may be an error of the server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))


def described(app: Any, csrf: str, schema: str) -> dict[str, Any]:
    """The interface of a studio in OpenAPI: each page takes the fields of all forms, of any text."""
    from evidence.__main__ import Requests

    fields: dict[str, Any] = {name: {"type": "string"} for name in Requests.FIELDS if name != "token"}
    fields |= {"kind": {"enum": Requests.KINDS}, "csrf": {"enum": [csrf]}, "schema": {"enum": [schema, "0"]}}
    fields["epsilon"] = {"enum": ["1", "0.5", "1e-9", "-1", "x"]}
    interface: dict[str, Any] = app.openapi()
    for page in interface["paths"].values():
        for method, operation in page.items():
            if method == "get":
                known = operation.setdefault("parameters", [])
                there = {one["name"] for one in known}
                known += [
                    {"name": name, "in": "query", "schema": values}
                    for name, values in fields.items()
                    if name not in there
                ]
            else:
                form = {"type": "object", "properties": fields, "required": ["csrf", "kind", "schema"]}
                content = {"application/x-www-form-urlencoded": {"schema": form}}
                operation["requestBody"] = {"required": True, "content": content}
    return interface


def main() -> int:
    import discreet
    from discreet._studio.app import bind_port, create_app, make_server
    from discreet._studio.guard import StudioSettings
    from evidence.__main__ import SCHEMA

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schemathesis")
    parser.add_argument("--examples", type=int, default=100, help="requests to each page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, bind_port(0) as listening:
        ledger = f"sqlite:///{folder}/studio.db"
        with discreet.Ledger(ledger) as book:
            book.create("survey", epsilon=1)
        settings = StudioSettings(port=listening.getsockname()[1], ledger=ledger)
        app = create_app(settings)
        server = make_server(app)
        listening.listen(128)
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        serving.start()
        while not server.started:
            time.sleep(0.02)
        origin = settings.origins[0]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.open(settings.address)
        page = browser.open(f"{origin}/schema").read().decode()
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        body = urlencode({"csrf": csrf, "text": SCHEMA}).encode()
        sent = urllib.request.Request(f"{origin}/schema", body, {"Origin": origin})
        kept = browser.open(sent).geturl().partition("schema=")[2].partition("&")[0]
        (jar,) = (one.cookiejar for one in browser.handlers if hasattr(one, "cookiejar"))
        cookie = "; ".join(f"{one.name}={one.value}" for one in jar)
        interface = Path(folder) / "openapi.json"
        interface.write_text(json.dumps(described(app, csrf, kept)))
        asked = [
            str(Path(given.schemathesis).resolve()),
            "run",
            str(interface),
            "--url",
            origin,
            "--seed",
            "1",
        ]
        asked += ["--checks", "not_a_server_error", "--max-examples", str(given.examples)]
        asked += ["--phases", "fuzzing", "-H", f"Cookie: {cookie}", "-H", f"Origin: {origin}"]
        ended = subprocess.run(asked, cwd=folder, check=False).returncode
        server.should_exit = True
        serving.join()
        with discreet.Ledger(ledger) as book:
            print(book.verify())
    return ended


if __name__ == "__main__":
    sys.exit(main())
