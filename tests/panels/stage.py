"""A page in a real Chromium that shows a panel whose Python side is an object in this process.

The page loads memkit's own page.js with a model that sends what the user does to `Page._on_message` and gets back the
traits that changed, as Jupyter's would: no kernel, no notebook.
"""

from __future__ import annotations

import json
import re
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Self

from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
TRAITS = ("spec", "values", "automatic", "notes", "picture", "words", "strip", "body", "code", "summary", "error")
TRAITS += ("heard", "n")
PATIENCE = 60_000
"""Milliseconds: only a test that fails waits so long."""
SETTLED = """([n, patience]) => new Promise((settled, failed) => {
  const end = performance.now() + patience;
  const look = () => {
    const said = document.querySelector("#place .said");
    if (Number(said?.dataset.n) >= n && !document.querySelector(".mkp.busy")) settled();
    else if (performance.now() > end) failed(new Error(`not settled: ${said?.innerText}`));
    else setTimeout(look, 5);
  };
  look();
})"""
NAMED = {
    *("button", "checkbox", "combobox", "image", "link", "listbox", "listboxoption", "option", "radio", "slider"),
    *("searchbox", "spinbutton", "switch", "tab", "tablist", "textbox", "group", "region", "menuitem"),
}
"""Roles of what can be used or stands for something: each has to have a name."""
HTML = """<!doctype html><meta charset="utf-8"><title>panel</title><link rel="stylesheet" href="page.css">
<style>body{margin:12px;COLOURS}</style><div id="place"></div><script type="module">
import panel from "./page.js";
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
  send: async (message) => take(await fetch("send", { method: "POST", body: JSON.stringify(message) })),
};
window.panel = model;
window.again = async () => take(await fetch("state"));
await take(await fetch("state?all"));
const place = document.createElement("div"); // as JupyterLab does: drawn first, then put into the page
panel.render({ model, el: place });
document.getElementById("place").append(place);
</script>"""


class Stage:
    """One Chromium and one server, for any number of panels one after the other."""

    def __init__(self, command: str) -> None:
        self._playwright = sync_playwright().start()
        self._chromium = self._playwright.chromium.launch(executable_path=command, args=FLAGS)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.widget: Any = None
        self.shown = 0  # the number of the page
        self.sent: dict[str, Any] = {}
        self.addresses: list[str] = []  # the addresses that the last page asked for
        self.slowness = 0.0  # seconds that the Python side takes longer for each message
        self.rest = 0  # milliseconds after which a slider rests, where they are not the page's own
        # One tab for all: a new one has a process of its own, and takes longer than the page that it is to show.
        self.tab: Tab = self._chromium.new_page(reduced_motion="reduce")
        self.tab.set_default_timeout(PATIENCE)
        self.tab.on("request", lambda request: self.addresses.append(request.url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._chromium.close()
        self._playwright.stop()
        self._server.shutdown()
        self._server.server_close()

    def show(self, widget: Any, width: int = 1300, height: int = 1100, dark: bool = False) -> Tab:
        """The tab, once it shows the widget, on a page of its own."""
        self.widget, self.sent, self.dark, self.addresses = widget, {}, dark, []
        self.shown += 1
        self.tab.set_viewport_size({"width": width, "height": height})
        self.tab.goto(f"http://127.0.0.1:{self._server.server_port}/{self.shown}/", wait_until="commit")
        self.settle()
        return self.tab

    def settle(self) -> None:
        """Wait until the page shows what Python has now."""
        self.tab.evaluate(SETTLED, [self.widget.n, PATIENCE])

    def press(self, *keys: str) -> None:
        """Press keys where the focus is, one after the other."""
        for key in keys:
            self.tab.keyboard.press(key)
            self.settle()

    def unnamed(self) -> list[dict[str, Any]]:
        """What Chromium's accessibility tree has without a name, although its role asks for one."""
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
        changed = {name: value for name, value in now.items() if everything or self.sent.get(name) != value}
        self.sent = now
        return json.dumps(changed).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes. The second would wait, in some panels always, for an acknowledgement of the first
    # that the other side holds back for 40 ms.
    disable_nagle_algorithm = True

    def __init__(self, stage: Stage, *args: Any) -> None:
        self.stage = stage
        super().__init__(*args)

    def do_GET(self) -> None:
        name = self._name()
        if name in ("page.js", "page.css"):
            source = (
                self.stage.widget._css if name.endswith("css") else (files("memkit.panels") / name).read_text("utf-8")
            )
            if self.stage.rest:
                source = re.sub(r"const REST = \d+;", f"const REST = {self.stage.rest};", str(source))
            text = str(source).encode()
            self._answer(text, "text/javascript" if name.endswith("js") else "text/css")
        elif name is not None and name.startswith("state"):
            self._answer(self.stage.packed(name.endswith("all")), "application/json")
        elif name is not None:
            colours = "color:#eee;background:#111" if self.stage.dark else "color:#111;background:#fff"
            self._answer(HTML.replace("COLOURS", colours).encode(), "text/html")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self._name():
            widget = self.stage.widget
            time.sleep(self.stage.slowness)
            widget._on_message(widget, message, [])
            # Meanwhile another page may be shown: what it has to be sent is not told to this one.
            if self._name():
                self._answer(self.stage.packed(False), "application/json")

    def _name(self) -> str | None:
        """What is asked for, below the number of the page that asks; what an earlier page asks for still is refused."""
        number, _, name = self.path.strip("/").partition("/")
        if number == str(self.stage.shown):
            return name
        self.send_error(410)
        return None

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""
