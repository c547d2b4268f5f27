"""Where tables live: a thin layer over `pyarrow.fs` and fsspec."""

from headwater.storage.files import FileEntry, Storage

__all__ = ["FileEntry", "Storage"]
