"""Recorded data are used where the user names a directory that has them."""

from pathlib import Path

import pytest

from penstock.lab.data_files import VARIABLE, data_file


def test_a_file_is_found_in_the_directory_that_the_user_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trace.parquet").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert data_file("trace.parquet") == tmp_path / "trace.parquet"
    assert data_file("other.parquet") is None


def test_without_a_directory_there_are_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trace.parquet").touch()
    monkeypatch.chdir(tmp_path)
    for unset in (None, ""):
        if unset is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, unset)
        assert data_file("trace.parquet") is None
