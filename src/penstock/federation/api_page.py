"""Shows the document of an interface as a page that needs nothing from elsewhere."""

from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
h2 { font: 600 1rem ui-monospace, monospace; margin: 1.5rem 0 0 }
p { margin: 0 }
"""


def page(document: dict[str, Any]) -> str:
    """Lists the endpoints of an OpenAPI document, each with what it says of itself."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    entries = [
        _entry(method, path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>"
        '<p>For programs: <a href="openapi.json">openapi.json</a></p>'
        f"{''.join(entries)}</body></html>"
    )


def _entry(method: str, path: str, operation: dict[str, Any]) -> str:
    told = escape(operation.get("description", operation.get("summary", "")))
    names = ", ".join(parameter["name"] for parameter in operation.get("parameters", []))
    takes = f"<p>Parameters: {escape(names)}</p>" if names else ""
    return f"<h2>{escape(method.upper())} {escape(path)}</h2><p>{told}</p>{takes}"
