"""Find links of a built site that lead nowhere: ``python docs/_ext/links.py docs/_build/html``.

Sphinx warns of the references that it resolves itself; this looks at what was written, pages and
places in them. Links to other sites are not followed, so that a build needs no network.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.places |= {place for key in ("id", "name") if (place := values.get(key))}
        self.links |= {link for key in ("href", "src") if (link := values.get(key))}


def broken(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (page, link) for every link within the site that leads nowhere.

    Parameters
    ----------
    root : Path
        The folder of the site.
    """
    files = [path for path in root.rglob("*.html") if "_static" not in path.parts]  # the theme's
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in files}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target, place = urldefrag(link)
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            there = file in pages if file.suffix == ".html" else file.exists()
            if not there or (place and file in pages and unquote(place) not in pages[file].places):
                yield str(path.relative_to(root)), link


def main() -> int:
    """Print what is broken, and return whether anything is."""
    root = Path(sys.argv[1]).resolve()
    found = list(broken(root))
    for page, link in found:
        print(f"{page}: {link} leads nowhere", file=sys.stderr)
    print(f"{sum(1 for _ in root.rglob('*.html'))} pages, {len(found)} broken links")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
