"""Penstock without the extra ``federation``: all else works, and what needs it says so."""

from __future__ import annotations

import subprocess
import sys

NOT_INSTALLED = """
import sys
for name in ("fastapi", "starlette", "uvicorn", "httpx"):
    sys.modules[name] = None
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NOT_INSTALLED + program], capture_output=True, text=True, timeout=60
    )


def test_other_commands_and_the_library_need_no_server() -> None:
    done = run(
        "import penstock, penstock.federation.split, penstock.federation.oracle\n"
        "import penstock.federation.coordination, penstock.federation.access\n"
        "from penstock.cli.main import main\n"
        "main(['--version'])"
    )
    assert (done.returncode, done.stdout[:8], done.stderr) == (0, "penstock", "")


def test_what_needs_a_server_says_how_to_install_it() -> None:
    done = run(
        "from penstock.cli.command_support import installed\n"
        "from penstock.errors import PenstockError\n"
        "try:\n"
        "    with installed('federation'):\n"
        "        import penstock.federation.site_server\n"
        "except PenstockError as error:\n"
        "    print(error)"
    )
    assert "pip install 'penstock[federation]'" in done.stdout, done.stderr
