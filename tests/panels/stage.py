"""A page in a real Chromium that shows a panel whose Python side is an object in this process.

The page loads memkit's own page.js with a model that sends what the user does to `Page._take` and gets back the traits
that changed, as Jupyter's would: no kernel, no notebook.
"""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
TRAITS = ("spec", "values", "automatic", "notes", "picture", "words", "strip", "body", "code", "summary", "error", "n")
NAMED = {
    *("button", "checkbox", "combobox", "image", "link", "listbox", "listboxoption", "option", "radio", "slider"),
    *("searchbox", "spinbutton", "switch", "tab", "tablist", "textbox", "group", "region", "menuitem"),
}
"""Roles of what can be used or stands for something: each has to have a name."""
HTML = """<!doctype html><meta charset="utf-8"><title>panel</title><link rel="stylesheet" href="/page.css">
<style>body{margin:12px;COLOURS}</style><div id="place"></div><script type="module">
import panel from "/page.js";
const state = {}, heard = [];
async function take(answer) {
  const told = await answer.json();
  Object.assign(state, told);
  if ("n" in told) for (const listener of heard) listener();
}
const model = {
  get: (name) => state[name],
  on: (_, listener) => heard.push(listener),
  off: (_, listener) => heard.splice(heard.indexOf(listener), 1),
  send: async (message) => take(await fetch("/send", { method: "POST", body: JSON.stringify(message) })),
};
window.again = async () => take(await fetch("/state"));
await take(await fetch("/state?all"));
const place = document.createElement("div"); // as JupyterLab does: drawn first, then put into the page
panel.render({ model, el: place });
document.getElementById("place").append(place);
document.title = "ready";
</script>"""


class Stage:
    """One Chromium and one server, for any number of panels one after the other."""

    def __init__(self, command: str) -> None:
        self._playwright = sync_playwright().start()
        self._chromium = self._playwright.chromium.launch(executable_path=command, args=FLAGS)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.widget: Any = None
        self.sent: dict[str, Any] = {}
        self.asked: list[str] = []  # the addresses that the last page asked for
        self.tab: Tab | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._chromium.close()
        self._playwright.stop()
        self._server.shutdown()
        self._server.server_close()

    def show(self, widget: Any, width: int = 1300, height: int = 1100, dark: bool = False) -> Tab:
        """A tab that shows the widget, once it is there."""
        if self.tab is not None:
            self.tab.close()
        self.widget, self.sent, self.dark, self.asked = widget, {}, dark, []
        self.tab = self._chromium.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.set_default_timeout(60_000)
        self.tab.goto(f"http://127.0.0.1:{self._server.server_port}/")
        self.tab.wait_for_function("document.title === 'ready'")
        return self.tab

    def photograph(self, page: Path, picture: Path, width: int, dark: bool) -> list[str]:
        """Take a picture of all of a page that is a file; the addresses that it asked for."""
        asked: list[str] = []
        scheme: Literal["dark", "light"] = "dark" if dark else "light"
        tab = self._chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        tab.screenshot(path=picture, full_page=True)
        tab.close()
        return asked

    def settle(self) -> None:
        """Wait until the page shows what Python has now."""
        assert self.tab is not None
        self.tab.wait_for_function(
            """n => Number(document.querySelector(".said").dataset.n) >= Number(n)
                && !document.querySelector(".mkp").matches(".busy")""",
            arg=str(self.widget.n),
        )

    def press(self, *keys: str) -> None:
        """Press keys where the focus is, one after the other."""
        assert self.tab is not None
        for key in keys:
            self.tab.keyboard.press(key)
            self.tab.wait_for_timeout(30)
            self.settle()

    def unnamed(self) -> list[dict[str, Any]]:
        """What Chromium's accessibility tree has without a name, although its role asks for one."""
        assert self.tab is not None
        nodes = self.tab.context.new_cdp_session(self.tab).send("Accessibility.getFullAXTree")["nodes"]
        return [
            node
            for node in nodes
            if not node["ignored"]
            and node.get("role", {}).get("value", "").lower() in NAMED
            and not node.get("name", {}).get("value", "").strip()
        ]

    def packed(self, everything: bool) -> bytes:
        """The traits that changed since they were sent last."""
        now = {name: getattr(self.widget, name) for name in TRAITS}
        told = {name: value for name, value in now.items() if everything or self.sent.get(name) != value}
        self.sent = now
        return json.dumps(told).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, stage: Stage, *more: Any) -> None:
        self.stage = stage
        super().__init__(*more)

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name in ("page.js", "page.css"):
            own = self.stage.widget._css if name.endswith("css") else (files("memkit.panels") / name).read_text("utf-8")
            text = str(own).encode()
            self._answer(text, "text/javascript" if name.endswith("js") else "text/css")
        elif name.startswith("state"):
            self._answer(self.stage.packed(name.endswith("all")), "application/json")
        else:
            colours = "color:#eee;background:#111" if self.stage.dark else "color:#111;background:#fff"
            self._answer(HTML.replace("COLOURS", colours).encode(), "text/html")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.stage.widget._take(self.stage.widget, message, [])
        self._answer(self.stage.packed(False), "application/json")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""
