"""Draws docs/images/studio.png: the plan page, as Debian's Chromium shows it.

Needs the extra ``web`` and ``pip install playwright``; run ``python examples/studio_screenshot.py [FILE]``.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from discreet._studio.app import bind_port, create_app, make_server
from discreet._studio.guard import StudioSettings

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/studio.png")
    with bind_port(0) as listening, sync_playwright() as playwright:
        settings = StudioSettings(port=listening.getsockname()[1])
        server = make_server(create_app(settings))
        listening.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1060, "height": 800})
            page.goto(settings.address)
            page.goto(f"http://127.0.0.1:{settings.port}/plan?columns=smoker&within=2+points")
            page.wait_for_selector("#more svg")
            page.screenshot(path=target)
            browser.close()
        finally:
            server.should_exit = True
            thread.join()
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
