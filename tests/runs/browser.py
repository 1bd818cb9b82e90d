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
    hovered: [...inside.querySelectorAll(".map path")].map(path => {
      const inSvg = path.getPointAtLength(0), svg = path.ownerSVGElement;
      const at = inSvg.matrixTransform(svg.getScreenCTM());
      frame.contentWindow.scrollTo(0, at.y - 200);
      const there = inSvg.matrixTransform(svg.getScreenCTM());
      const found = inside.elementFromPoint(there.x, there.y);
      return found && found.closest("path")?.querySelector("title")?.textContent;
    }),
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


def browse(folder, *arguments):
    """Return what a headless browser prints, whose profile is in a folder."""
    return subprocess.run(
        [
            chromium(), "--headless", "--no-sandbox", "--disable-gpu",
            f"--user-data-dir={folder}/profile", *arguments,
        ],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip


def pages_on_paper(page, folder):
    """Return the number of sheets that a page has when it is printed."""
    source, paper = folder / "page.html", folder / "page.pdf"
    source.write_text(page, encoding="utf-8")
    browse(folder, "--no-pdf-header-footer", f"--print-to-pdf={paper}", source.as_uri())
    return len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))


def looked_at(page, folder, widths, *, dark=False):
    """Return what axe says of a page, by width of the window."""
    chromium()
    package = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    axe = files(package).joinpath("axe.min.js").read_text("utf-8")
    for_script = axe.replace("</script", "<\\/script")
    text = (
        f'<!doctype html><body><script id="axe" type="text/plain">{for_script}</script>'
        f'<textarea id="page" hidden>{html.escape(page)}</textarea>'
        f"<script>{_SCRIPT % {'widths': json.dumps(widths)}}</script></body>"
    )
    wrapper = folder / "wrapper.html"
    wrapper.write_text(text, encoding="utf-8")
    done = browse(
        folder,
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--virtual-time-budget=60000", "--dump-dom", wrapper.as_uri(),
    )  # fmt: skip
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told, done.stdout[-2000:] + done.stderr[-2000:]
    return {int(width): one for width, one in json.loads(html.unescape(told.group(1))).items()}
