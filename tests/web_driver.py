"""A browser without a window, controlled by chromedriver with the W3C WebDriver protocol."""

import base64
import json
import re
import subprocess
import time
import urllib.request

from places import PROJECT


class Browser:
    """Chromium, started by chromedriver; ends with the context.

    Args:
        driver: the path of chromedriver.
        dark: whether the browser prefers dark colours.
    """

    def __init__(self, driver: str, dark: bool = False):
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        port = next(match[1] for line in self._process.stdout if (match := re.search(r"on port (\d+)\.", line)))
        self._url = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        arguments += ["--window-size=800,780", "--hide-scrollbars"]  # they would be in the pictures
        arguments += ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
        options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._url += f"/session/{answer['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait()
            self._process.stdout.close()

    def _call(self, method: str, path: str, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["value"]

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def command(self, name: str, **parameters):
        """Runs a command of Chromium's DevTools."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def resize(self, width: int, height: int = 780) -> None:
        """Sets the size of the page in CSS pixels; 390 is a telephone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def run(self, script: str, *arguments):
        """Runs JavaScript and returns its result."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str, seconds: float = 20):
        """Runs JavaScript repeatedly and returns its first true value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.run(script):
                return value
            time.sleep(0.05)
        raise AssertionError(
            f"not true within {seconds} seconds: {script}\n{self.run('return document.body.innerText')}"
        )

    def type(self, selector: str, text: str) -> None:
        """Types a text, key by key, into the selected element."""
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        (identifier,) = found.values()
        self._call("POST", f"/element/{identifier}/clear")
        self._call("POST", f"/element/{identifier}/value", {"text": text})

    def press(self, key: str) -> None:
        """Presses a key where the focus is; WebDriver's codes name the keys without a letter."""
        strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def screenshot(self, selector: str | None = None) -> bytes:
        """Returns a PNG of what the window shows, or of the whole of a selected element."""
        if selector is None:
            return base64.b64decode(self._call("GET", "/screenshot"))
        self.resize(self.run("return innerWidth"), self.run("return document.documentElement.scrollHeight"))
        (identifier,) = self._call("POST", "/element", {"using": "css selector", "value": selector}).values()
        return base64.b64decode(self._call("GET", f"/element/{identifier}/screenshot"))

    def save_screens(self, name: str) -> None:
        """Keeps pictures of the page, as wide as a laptop and as a telephone, in build/screens."""
        for width in (1280, 420):
            self.resize(width)
            path = PROJECT / "build" / "screens" / f"{name}_{width}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.screenshot("html"))

    def complaints(self) -> list[str]:
        """Returns the errors in the browser's console."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
