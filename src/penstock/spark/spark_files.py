"""Files on any file system that Spark can reach.

Hadoop's interface is public. How Python gets at it is not: ``Engine.files`` makes these.
"""

from typing import Any


class Files:
    """The files below a place, through Hadoop's interface, as Spark itself reads them."""

    def __init__(self, java: Any, settings: Any, location: str) -> None:
        self._java, self._settings = java, settings
        self._root = java.org.apache.hadoop.fs.Path(location)
        self._files: Any = self._root.getFileSystem(settings)

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none where there is no such folder."""
        if not self.exists(folder):
            return []
        listed = self._files.listStatus(self._path(folder))
        return [str(status.getPath().getName()) for status in listed]

    def read(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._files.create(self._path(name))
        try:
            self._java.org.apache.commons.io.IOUtils.write(text, stream, "UTF-8")
        finally:
            stream.close()

    def copy(self, name: str, to: "Files", new_name: str) -> None:
        """Copies a file or a folder, where there is one."""
        if self.exists(name):
            source, target = self._path(name), to._path(new_name)
            to._files.mkdirs(target.getParent())
            copy = self._java.org.apache.hadoop.fs.FileUtil.copy
            copy(self._files, source, to._files, target, False, self._settings)

    def remove(self, name: str) -> None:
        """Deletes a file, if there is one."""
        self._files.delete(self._path(name), False)

    def rename(self, name: str, new_name: str) -> None:
        """Gives a file or a folder another name; where that is taken, it fails."""
        if self.exists(new_name) or not self._files.rename(self._path(name), self._path(new_name)):
            raise OSError(f"cannot rename {self._path(name)} to {new_name}")

    def delete(self, name: str = "") -> None:
        """Deletes the place, or what has this name in it, and all that is below it."""
        self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._root, name) if name else self._root
