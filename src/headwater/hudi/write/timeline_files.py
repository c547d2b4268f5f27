"""Files of the timeline as a writer makes them: their names, and creating one so that its outcome is known."""

from __future__ import annotations

from headwater.errors import AlreadyThere, OutcomeUnknown, StorageError
from headwater.hudi.properties import TableConfig
from headwater.hudi.timeline.instants import COMMIT
from headwater.spec.model import InstantState
from headwater.storage import Storage

_ATTEMPTS = 3


def pending_path(config: TableConfig, instant: str, action: str, state: InstantState) -> str:
    """Where a pending action stands in the timeline.

    >>> from headwater.hudi.properties import check_config
    >>> values = {"hoodie.table.name": "t", "hoodie.table.version": "6"}
    >>> pending_path(check_config(values, ""), "20260101000000000", "commit", InstantState.INFLIGHT)
    '.hoodie/20260101000000000.inflight'
    """
    if action == COMMIT and state is InstantState.INFLIGHT:
        return f"{config.timeline_folder}/{instant}.inflight"
    return f"{config.timeline_folder}/{instant}.{action}.{state.value}"


def completed_path(config: TableConfig, instant: str, action: str, completed_at: str) -> str:
    """Where a completed action stands; layout 2 has the completion time in the name.

    >>> from headwater.hudi.properties import check_config
    >>> values = {"hoodie.table.name": "t", "hoodie.table.version": "9"}
    >>> completed_path(check_config(values, ""), "20260101000000000", "commit", "20260101000001000")
    '.hoodie/timeline/20260101000000000_20260101000001000.commit'
    """
    time = instant if config.layout < 2 else f"{instant}_{completed_at}"
    return f"{config.timeline_folder}/{time}.{action}"


def settle(storage: Storage, path: str, data: bytes, *, others_may_write_the_same: bool = False) -> None:
    """Create a file and know the outcome: where the call fails, the file is read back.

    The same bytes under the same name are ours: a call that failed had landed; where others may write the same, only
    after a call of ours failed. A file that is not there is created
    again, on the same condition, so nothing is ever written twice. Raises `AlreadyThere` where another writer's file
    is there, the failure itself where a local disk has no such file, `OutcomeUnknown` where the storage answers neither
    way. A crash leaves no file or a whole one.

    >>> import tempfile
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> settle(storage, "a", b"mine"), settle(storage, "a", b"mine")
    (None, None)
    """
    failure: StorageError | None = None
    is_there = True
    for _ in range(_ATTEMPTS):
        try:
            storage.create(path, data)
            return
        except AlreadyThere:
            # Empty files are all alike: whose one is, only a failed call of ours tells.
            known = bool(data) and not others_may_write_the_same
            if (known or failure is not None) and storage.read_bytes(path) == data:
                return
            raise
        except StorageError as error:
            failure = error
        try:
            is_there = storage.find(path) is not None
            if is_there and storage.read_bytes(path) == data:
                return
        except StorageError as error:
            failure, is_there = error, True
    if storage.is_local and not is_there and failure is not None:
        # No request is under way that could still land: a disk that is full or may not be written has said no.
        raise failure
    raise OutcomeUnknown(
        f"{storage.describe(path)}: whether it was created is not known ({failure}); when the storage answers again, "
        "open the table to see, and write again if the commit is not there: the next writer rolls back what was left"
    ) from failure
