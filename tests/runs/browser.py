"""A headless Chromium: what axe finds in a page, and whether the page is wider than its window."""

import html
import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SCRIPT = """
const sizes = %(widths)s, found = {};
async function look(frame, width) {
  const inside = frame.contentDocument, script = inside.createElement("script");
  script.textContent = document.getElementById("axe").textContent;
  inside.head.appendChild(script);
  const told = await frame.contentWindow.axe.run(inside);
  const name = v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 160)).join(" | ");
  found[width] = {
    violations: told.violations.map(name), passes: told.passes.map(p => p.id),

    wide: inside.documentElement.scrollWidth, dark: frame.contentWindow.matchMedia(
      "(prefers-color-scheme: dark)").matches,
  };
}
Promise.all(sizes.map(width => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  frame.onload = () => look(frame, width).then(done);
  frame.srcdoc = document.getElementById("page").textContent;
  document.body.appendChild(frame);
}))).then(() => {
  document.body.innerHTML = "";
  document.body.dataset.found = JSON.stringify(found);
});
"""


def chromium():
    """Return the browser's program, or skip the test where there is none."""
    path = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("needs a Chromium; in Debian: apt-get install chromium")
    return path


def looked_at(page, folder, widths, *, dark=False):
    """Return what axe says of a page, by width of the window."""
    browser = chromium()
    axe = files(pytest.importorskip("axe_core_python")).joinpath("axe.min.js").read_text("utf-8")
    for_script = axe.replace("</script", "<\\/script")
    text = (
        f'<!doctype html><body><script id="axe" type="text/plain">{for_script}</script>'
        f'<textarea id="page" hidden>{html.escape(page)}</textarea>'
        f"<script>{_SCRIPT % {'widths': json.dumps(widths)}}</script></body>"
    )
    wrapper = folder / "wrapper.html"
    wrapper.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu",
            f"--user-data-dir={folder}/profile",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=60000", "--dump-dom", wrapper.as_uri(),
        ],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told, done.stdout[-2000:] + done.stderr[-2000:]
    return {int(width): one for width, one in json.loads(html.unescape(told.group(1))).items()}
