"""JupyterLab as `memkit lab` starts it, a page of it in Chromium, and the kernel behind that page."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from playwright.sync_api import Locator, Page, expect, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
]
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    # Cells out of view would be taken out of the page.
    "notebook-extension/tracker": {"windowingMode": "none"},
}
PATIENCE = 60_000
"""Milliseconds: only a test that fails waits so long."""
_READY = "() => window.jupyterapp?.shell?.currentWidget?.sessionContext"
_RUN = """async () => {
  const shown = jupyterapp.shell.currentWidget;
  await shown.context.ready;
  await shown.sessionContext.ready;
  await shown.sessionContext.session.kernel.info;
  await jupyterapp.commands.execute("notebook:run-all-cells");
  return shown.sessionContext.session.kernel.id;
}"""


class Lab:
    """A server of JupyterLab on one folder."""

    def __init__(self, folder: Path, memories: Path, scratch: Path) -> None:
        self.folder, self._scratch, self._token = folder, scratch, secrets.token_hex(16)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        for name, values in SETTINGS.items():
            file = scratch / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values), encoding="utf-8")
        (scratch / "config").mkdir()
        own_settings = {"LabApp": {"expose_app_in_browser": True}}
        (scratch / "config" / "jupyter_lab_config.json").write_text(json.dumps(own_settings), encoding="utf-8")
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        environment = {name: str(scratch / place) for name, place in places.items()}
        command = [sys.executable, "-m", "memkit", "lab", memories, "--into", folder, "--no-browser", "--allow-root"]
        with (scratch / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(word) for word in (*command, "--port", self._port)],
                env={**os.environ, **environment, "JUPYTER_TOKEN": self._token},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Until it answers: a page of it can be asked for earlier, what else takes time done meanwhile."""
        for _ in range(600):
            try:
                self.ask("api/status")
            except OSError:
                assert self._process.poll() is None, (self._scratch / "log").read_text(encoding="utf-8")
                time.sleep(0.1)
            else:
                return
        raise TimeoutError((self._scratch / "log").read_text(encoding="utf-8"))

    def ask(self, path: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/{path}", headers={"Authorization": f"token {self._token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def address(self, name: str) -> str:
        """Of a notebook on a page of its own."""
        return f"http://127.0.0.1:{self._port}/doc/tree/{name}?token={self._token}&reset"

    def kernel(self, number: str) -> BlockingKernelClient:
        client = BlockingKernelClient(
            connection_file=str(self._scratch / "runtime" / f"kernel-{number}.json"),
        )
        client.load_connection_file()
        client.start_channels()
        return client

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Notebook:
    """A notebook in the browser whose cells have all been run."""

    def __init__(self, lab: Lab, page: Page, name: str) -> None:
        self.page = page
        lab.wait()
        page.goto(lab.address(name), wait_until="domcontentloaded")
        page.wait_for_function(_READY)
        self._kernel = lab.kernel(page.evaluate(_RUN))

    def python(self, expression: str) -> Any:
        """What an expression of plain literals is worth in the notebook's kernel."""
        import ast

        sent = self._kernel.execute("", silent=True, user_expressions={"it": expression})
        while (reply := self._kernel.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != sent:
            pass
        answer = reply["content"]["user_expressions"]["it"]
        assert answer["status"] == "ok", answer
        return ast.literal_eval(answer["data"]["text/plain"])

    def panel(self, title: str, nth: int = 0) -> Locator:
        """A panel by its title, once it is drawn."""
        section = self.page.locator(f'section.mkp[aria-label="{title}"]').nth(nth)
        expect(section.locator("output.said")).to_have_attribute("data-n", re.compile("[0-9]"))
        section.scroll_into_view_if_needed()
        return section

    def close(self) -> None:
        self._kernel.stop_channels()


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of code cells, never run; where there is one, they come after its own."""
    kernel = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    notebook = nbformat.read(path, 4) if path.exists() else nbformat.v4.new_notebook(metadata=kernel)
    for number, cell in enumerate(cells, len(notebook.cells)):
        notebook.cells.append(nbformat.v4.new_code_cell(cell, id=f"cell-{number:02d}"))
    nbformat.write(notebook, path)


@contextmanager
def chromium(command: str, *, dark: bool = False) -> Iterator[Page]:
    """A page of the browser that is installed, that reaches no other machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command, args=FLAGS)
        context = browser.new_context(
            viewport={"width": 1300, "height": 1500},
            reduced_motion="reduce",
            color_scheme="dark" if dark else "light",
        )
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        context.route(lambda address: "127.0.0.1" not in address, lambda route: route.abort())
        yield context.new_page()
        browser.close()
