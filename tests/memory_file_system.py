"""An object store in memory, for Apache Beam: once this module is imported, Beam finds the file system of memory://."""

import io

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

# path -> bytes
FILES: dict[str, bytes] = {}


class Writer(io.BytesIO):
    """A file that appears when it is closed."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def close(self):
        if not self.closed:
            FILES[self.path] = self.getvalue()
        super().close()


class MemoryFileSystem(FileSystem):
    """Files in memory. Like HDFS, it never replaces a file."""

    @classmethod
    def scheme(cls):
        return "memory"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        folder, _, name = path.rpartition("/")
        return folder, name

    def _list(self, dir_or_prefix):
        for path, data in list(FILES.items()):
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, len(data), 0.0)

    def create(self, path, mime_type=None, compression_type=None):
        return Writer(path)

    def open(self, path, mime_type=None, compression_type=None):
        return io.BytesIO(FILES[path])

    def rename(self, source_file_names, destination_file_names):
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            if destination in FILES:
                raise BeamIOError(f"{destination} exists")
            FILES[destination] = FILES.pop(source)

    def exists(self, path):
        return path in FILES

    def size(self, path):
        return len(FILES[path])

    def last_updated(self, path):
        return 0.0

    def metadata(self, path):
        return FileMetadata(path, len(FILES[path]), 0.0)

    def delete(self, paths):
        for path in paths:
            del FILES[path]

    def has_dirs(self):
        return False

    def mkdirs(self, path):
        raise NotImplementedError

    def copy(self, source_file_names, destination_file_names):
        raise NotImplementedError

    def checksum(self, path):
        raise NotImplementedError
