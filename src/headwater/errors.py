"""One error tree: every error says what went wrong, where, and what to do, and is also the fitting builtin.

Catch `HeadwaterError` to catch them all, or the builtin (`ValueError`, `FileNotFoundError`, …) that you would expect.

>>> try:
...     raise ColumnNotFound("no column 'fare'; the table has: id, price")
... except KeyError as error:
...     print(error)
no column 'fare'; the table has: id, price
"""

from __future__ import annotations


class HeadwaterError(Exception):
    """Base of everything that this library raises on purpose."""

    def __str__(self) -> str:
        # KeyError would show its message in quotes: a message is a sentence here, not a key.
        return " ".join(str(part) for part in self.args)


class TableNotFound(HeadwaterError, FileNotFoundError):
    """The path holds no table."""


class MissingFile(HeadwaterError, FileNotFoundError):
    """A file that the table's metadata names is not there."""


class StorageError(HeadwaterError, OSError):
    """The storage refused or failed a call."""


class AlreadyThere(StorageError, FileExistsError):
    """A file that was to be created is there already: somebody else was first."""


class OutcomeUnknown(StorageError):
    """A call failed and may have landed all the same, and the storage does not tell which."""


class TableChanged(HeadwaterError, RuntimeError):
    """The table is in another state than when it was loaded, and that one cannot be read any more."""


class TableExists(HeadwaterError, FileExistsError):
    """The path where a table was to be created holds something."""


class TableLocked(HeadwaterError, TimeoutError):
    """Another writer is at work on the table."""


class LockLost(HeadwaterError, RuntimeError):
    """This writer was so slow that another one took its place; what it wrote is rolled back."""


class WriteRefused(HeadwaterError, ValueError):
    """Rows or a table that this write cannot be done with. Nothing was written."""


class DuplicateKeys(WriteRefused):
    """Record keys that are there already, or twice in the batch, where that is not allowed."""


class InvalidTableConfig(HeadwaterError, ValueError):
    """The table's own configuration is missing a value or holds one that cannot be."""


class UnsupportedTable(HeadwaterError, NotImplementedError):
    """A table version, feature or file format that this reader does not know."""


class CorruptFile(HeadwaterError, ValueError):
    """A file's bytes are not what its format demands."""


class InvalidArgument(HeadwaterError, ValueError):
    """An argument of a call that cannot be used as given."""


class WrongType(InvalidArgument, TypeError):
    """An argument of a type that the call does not take."""


class InvalidExpression(HeadwaterError, ValueError):
    """A filter that does not parse or does not fit the schema."""


class ColumnNotFound(HeadwaterError, KeyError):
    """A column that the table does not have."""


class InstantNotFound(HeadwaterError, LookupError):
    """A point in time outside the table's history, or one whose files are gone."""


class UnknownMerger(HeadwaterError, LookupError):
    """A record merger or payload class that nobody registered."""


class MissingDependency(HeadwaterError, ImportError):
    """An optional package is needed for this call and is not installed."""


class SparkSetupError(HeadwaterError, RuntimeError):
    """A Spark session that cannot read through Headwater as it is set up."""


class ConnectorNotFound(SparkSetupError, FileNotFoundError):
    """The connector's jar for this Spark is not there, or not on the session's class path."""


class WrongConnector(SparkSetupError):
    """A connector for another Spark is on the class path, or more than one is."""


class JavaNotFound(SparkSetupError):
    """No Java, or one that is too old."""
