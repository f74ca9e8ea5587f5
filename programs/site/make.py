#!/usr/bin/env python3
"""The pages as the source of a book, and the check of what was made of it.

    make.py FOLDER          writes book.toml, SUMMARY.md and the pages into FOLDER, for `mdbook build FOLDER`
    make.py --check SITE    every link of a built site leads to a file that is there and to a place that it has

`contents.txt` is the order; the title of a page is its first heading. Pages stay where they are in the repository, so that their
links are right in both places.
"""

import html.parser
import os
import shutil
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def title(page):
    with open(os.path.join(ROOT, page)) as file:
        for line in file:
            if line.startswith("# "):
                return line[2:].strip()
    raise SystemExit(f"{page} has no heading")


def make(folder):
    source = os.path.join(folder, "src")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(source)
    for name in ("book.toml", "site.css"):
        shutil.copy(os.path.join(HERE, name), folder)
    # What pages link to is there too: programs, scenarios, scripts.
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    kept = [path for path in tracked.splitlines() if path.startswith("programs/") or "/" not in path or "packaging" in path]
    for path in kept:
        target = os.path.join(source, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), target)
    lines = ["# Summary", ""]
    with open(os.path.join(HERE, "contents.txt")) as file:
        for line in file.read().splitlines():
            lines.append(line if line.startswith("#") or not line else f"- [{title(line)}]({line})")
    with open(os.path.join(source, "SUMMARY.md"), "w") as file:
        file.write("\n".join(lines) + "\n")


class Page(html.parser.HTMLParser):
    """The links of a page, and the places that links may lead to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        link = attributes.get("href") if tag == "a" else attributes.get("src") if tag in ("img", "script") else None
        if link:
            self.links.append(link)


def check(site):
    pages = {}
    for path, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html") and name not in ("print.html", "404.html", "toc.html"):
                with open(os.path.join(path, name)) as file:
                    pages[os.path.normpath(os.path.join(path, name))] = Page(file.read())
    wrong, count = [], 0
    for page, found in pages.items():
        for link in found.links:
            target = urllib.parse.urlsplit(link)
            if target.scheme or target.netloc:
                continue
            count += 1
            path = urllib.parse.unquote(target.path)
            file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if os.path.isdir(file):
                file = os.path.join(file, "index.html") if os.path.exists(os.path.join(file, "index.html")) else file
            if not os.path.exists(file):
                wrong.append(f"{os.path.relpath(page, site)}: {link}: there is no such file")
            elif target.fragment and file in pages and target.fragment not in pages[file].places:
                wrong.append(f"{os.path.relpath(page, site)}: {link}: there is no such place")
    print("\n".join(wrong))
    print(f"{len(pages)} pages, {count} links, {len(wrong)} wrong")
    if wrong or count < 100:
        raise SystemExit(1)


if len(sys.argv) == 3 and sys.argv[1] == "--check":
    check(sys.argv[2])
elif len(sys.argv) == 2:
    make(sys.argv[1])
else:
    raise SystemExit(__doc__)
