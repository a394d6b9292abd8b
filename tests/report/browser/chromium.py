"""A headless Chromium, controlled over the DevTools protocol by two pipes: no port, driver or library.

Every wait is for an event or an answer of the browser, bounded by `TIMEOUT_S`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

#: Time limit of one answer of the browser.
TIMEOUT_S = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Codes of the keys that insert no letter.
_CODES = {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Tab": 9,
    "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "Backspace": 8, "Delete": 46,
}  # fmt: skip
_TEXTS = {"Enter": "\r"}


class BrowserError(Exception):
    """The browser has returned an error, or no answer."""


def find() -> str | None:
    """Return the path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str:
    """Return the path of Chromium; install Debian's if there is none.

    Raises:
        BrowserError: it cannot be installed; the message says why.
    """
    found = find()
    if found is not None:
        return found
    if shutil.which("apt-get") is None:
        raise BrowserError("no Chromium here, and no apt-get to install Debian's")
    if os.geteuid() != 0:
        raise BrowserError("no Chromium here: run 'apt-get install chromium' as root")
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        done = subprocess.run(
            ["apt-get", "-q", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0 or find() is None:
        raise BrowserError(f"apt-get could not install chromium: {done.stderr.strip()[-300:]}")
    return str(find())


class Browser:
    """One browser process with one page, as a context manager that ends it."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._number = 0
        self._received = b""
        self.events: list[dict[str, Any]] = []
        """Events of the browser that no call has waited for yet."""
        self._session = ""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            targets = self._command("Target.getTargets")["targetInfos"]
            page = next(each["targetId"] for each in targets if each["type"] == "page")
            attached = self._command("Target.attachToTarget", targetId=page, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
                self.command(f"{domain}.enable")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        theirs_in, self._to = _pipe()
        self._from, theirs_out = _pipe()
        stack.callback(os.close, self._to)
        stack.callback(os.close, self._from)
        log = Path(home) / "log"
        arguments = [
            self._program,
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={home}/profile",
            "--no-sandbox",  # root cannot use a sandbox, and the page is our own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--no-first-run",
            "--force-color-profile=srgb",
            "--hide-scrollbars",
            "about:blank",
        ]
        pid = os.posix_spawn(
            self._program,
            arguments,
            {**os.environ, "HOME": home},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs_in, 3),
                (os.POSIX_SPAWN_DUP2, theirs_out, 4),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setpgroup=0,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        stack.callback(_end, pid)

    # -- protocol ------------------------------------------------------------------------------

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the page, and return its result."""
        return self._command(method, self._session, **parameters)

    def _command(self, method: str, session: str = "", /, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, session, parameters)
        while True:
            got = self._read()
            if got.get("id") == number:
                if "error" in got:
                    raise BrowserError(f"{method}: {got['error'].get('message')}")
                return dict(got["result"])
            if got.get("method") == "Page.javascriptDialogOpening":
                self._leave()
            self.events.append(got)

    def _leave(self) -> None:
        """Leave the page although it asks for confirmation, which blocks all other answers."""
        self._send("Page.handleJavaScriptDialog", self._session, {"accept": True})

    def _send(self, method: str, session: str, parameters: dict[str, Any]) -> int:
        """Send a command, and return the number of its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

    def event(self, method: str) -> dict[str, Any]:
        """Wait for an event, or return it if it has arrived already."""
        for at, got in enumerate(self.events):
            if got.get("method") == method:
                return dict(self.events.pop(at)["params"])
        while True:
            got = self._read()
            if got.get("method") == method:
                return dict(got["params"])
            self.events.append(got)

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise BrowserError(f"no answer within {TIMEOUT_S:.0f} s")
            data = os.read(self._from, 1 << 16)
            if not data:
                raise BrowserError("the browser has ended")
            self._received += data
        message, _, self._received = self._received.partition(b"\0")
        return dict(json.loads(message))

    # -- a page --------------------------------------------------------------------------------

    def open(self, path: Path) -> None:
        """Load a file, and wait until it is loaded."""
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        """Load a page, and wait until it is loaded, without events of the previous page."""
        self.command("Page.navigate", url="about:blank")  # a new fragment alone loads nothing
        self.event("Page.loadEventFired")
        self.events.clear()
        self.command("Page.navigate", url=address)
        self.event("Page.loadEventFired")

    def reload(self) -> None:
        """Load the page again, and wait until it is loaded; pending requests of the old page are dropped."""
        self.command("Page.reload")
        self.event("Page.loadEventFired")

    def run(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        got = self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in got:
            raise BrowserError(f"{expression}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression on the page, which is evaluated before each frame, is true.

        Raises:
            BrowserError: it does not become true.
        """
        self.run(
            f"""new Promise((done, fail) => {{
              const until = performance.now() + {TIMEOUT_S * 1000 / 3};
              const look = () => {{
                let value;
                try {{ value = {expression}; }} catch {{ value = null; }}
                if (value) return done(true);
                if (performance.now() > until) return fail(new Error("it does not become true"));
                requestAnimationFrame(look);
              }};
              look();
            }})"""
        )

    def look(
        self,
        *,
        width: int = 1400,
        height: int = 900,
        scheme: str = "light",
        media: str = "",
        motion: str = "no-preference",
    ) -> None:
        """Set the window's size, the preferred scheme and motion (``reduce``), and the medium (``print``)."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.command(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": motion},
            ],
        )

    def click(self, selector: str) -> None:
        """Click into the middle of the first element of a selector with the mouse."""
        box = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, box)

    def drag(self, selector: str, to: str, by: tuple[float, float] = (0, 0)) -> None:
        """Drag the first element of a selector with the mouse to the middle of another one, plus an offset."""
        begin = self.middle(selector)
        middle = self.middle(to, scroll=False)
        end = (middle[0] + by[0], middle[1] + by[1])
        self.mouse("mousePressed", begin)
        for part in (0.05, 0.5, 1.0):
            at = tuple(one + (other - one) * part for one, other in zip(begin, end, strict=True))
            self.mouse("mouseMoved", (at[0], at[1]))
        self.mouse("mouseReleased", end)

    def middle(self, selector: str, *, scroll: bool = True) -> tuple[float, float]:
        """Return the middle of the first element of a selector, in coordinates of the window."""
        scrolled = "e.scrollIntoView({block: 'center', behavior: 'instant'});" if scroll else ""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); {scrolled}"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return float(x), float(y)

    def mouse(self, kind: str, at: tuple[float, float]) -> None:
        """Send a mouse event at a position: ``mousePressed``, ``mouseMoved`` or ``mouseReleased``."""
        self.command(
            "Input.dispatchMouseEvent",
            type=kind,
            x=at[0],
            y=at[1],
            button="left",
            buttons=0 if kind == "mouseReleased" else 1,
            clickCount=1,
        )

    def press(self, key: str, *, alt: bool = False, ctrl: bool = False) -> None:
        """Press and release a key."""
        parts: dict[str, Any] = {"key": key, "modifiers": alt + 2 * ctrl}
        if len(key) == 1:
            parts |= {"code": f"Key{key.upper()}", "windowsVirtualKeyCode": ord(key.upper())}
        else:
            parts |= {"code": key, "windowsVirtualKeyCode": _CODES[key]}
        if key in _TEXTS and not alt and not ctrl:
            parts["text"] = _TEXTS[key]
        self.command("Input.dispatchKeyEvent", type="keyDown", **parts)
        self.command("Input.dispatchKeyEvent", type="keyUp", **parts)

    def type(self, text: str) -> None:
        """Insert text at the focus."""
        self.command("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save a picture of the window, or of the whole page, in the format of the path's suffix."""
        kind = path.suffix.removeprefix(".")
        got = self.command("Page.captureScreenshot", format=kind, captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(got["data"]))

    def pdf(self, path: Path) -> None:
        """Save the page as it is printed."""
        got = self.command("Page.printToPDF", printBackground=True)
        path.write_bytes(base64.b64decode(got["data"]))


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors differ from those under which the browser gets its ends."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]


def _end(pid: int) -> None:
    """Kill the browser and the processes that it has started, which are one group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
