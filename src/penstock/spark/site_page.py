"""Opens the page of a site where a program asks for one; nothing here knows how it is made."""

from importlib import import_module
from typing import Any, Protocol

from penstock.errors import PenstockError

PAGE_MODULE = "penstock.dashboard.job_page"
"""It is found by its name: it imports this room, so this room cannot import it."""


class SitePage(Protocol):
    """Is a page that is served until it is closed."""

    @property
    def address(self) -> str: ...

    def close(self) -> None: ...


def opened(site: Any, listen: int | str | None, name: str = "") -> SitePage | None:
    """Answers the page of a site, if it is to have one: at a port, or an address and a port.

    It shows the name of the application, unless told another one.
    """
    if listen is None:
        return None
    try:
        name = name or str(site.spark.conf.get("spark.app.name"))
        made: SitePage = import_module(PAGE_MODULE).JobPage(site, name, listen)
    except ModuleNotFoundError as error:
        raise PenstockError(
            f"dashboard: {error}; install it with: pip install 'penstock[dashboard]'"
        ) from None
    return made
