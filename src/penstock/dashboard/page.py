"""Serves the page itself: files that need nothing from elsewhere, and say nothing by themselves."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CHARTS = "vendor/uPlot.iife.min.js"
"""The chart library, which is fetched when Penstock is built."""
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""With them a browser loads nothing from another machine, whatever the page says."""

log = logging.getLogger("penstock")


@dataclass(frozen=True)
class PageFile:
    """Is a file of the page, as it is sent."""

    content: bytes
    media_type: str
    etag: str


def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """Reads all files of the page, by their names below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in MEDIA_TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            name = path.relative_to(folder).as_posix()
            found[name] = PageFile(content, MEDIA_TYPES[path.suffix], etag)
    return found


def add_page(app: FastAPI) -> None:
    """Adds the page at ``/``, and what it is made of below ``/page/``."""
    files = page_files()
    if CHARTS not in files:
        log.warning("the page shows no charts: build Penstock again, with npm on the PATH")

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return _sent(files["index.html"], request)

    @app.get("/page/{name:path}", include_in_schema=False)
    async def part(name: str, request: Request) -> Response:
        if name not in files:
            raise HTTPException(404, f"the page has no file {name!r}")
        return _sent(files[name], request)


def _sent(file: PageFile, request: Request) -> Response:
    headers = {**HEADERS, "ETag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
