"""The Python end of the connector's writes: the JVM hands a Dataset over, and the PySpark pipeline writes it.

`df.write`, `INSERT` and `CREATE TABLE … AS SELECT` reach the connector inside the JVM. It calls back into this process
through PySpark's own callback channel, the one that `foreachBatch` uses. With pinned threads (PySpark's default) the
callback runs in the very thread that waits for the statement; otherwise in a thread of the channel. Nothing is held
meanwhile, so that threads may write at the same time.

What Python raises goes through the JVM as a value with a number, and comes out again as the same error.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from headwater.errors import ConnectorNotFound, SparkSetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXCEPTION = "io.headwater.spark.PythonWriters$PythonWriteException"
_DEEPEST_CAUSE = 8
_MOST_KEPT = 32


class _Raised:
    """Errors on their way through the JVM. Those that nobody asks for again are forgotten."""

    def __init__(self) -> None:
        self._errors: OrderedDict[str, BaseException] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def keep(self, error: BaseException) -> str:
        with self._lock:
            token = str(next(self._numbers))
            self._errors[token] = error
            while len(self._errors) > _MOST_KEPT:
                self._errors.popitem(last=False)
        return token

    def take(self, token: str) -> BaseException | None:
        with self._lock:
            return self._errors.pop(token, None)


_RAISED = _Raised()


class DriverWriter:
    """`io.headwater.spark.PythonWriter`, in Python."""

    def write(self, rows: Any, request: str) -> str:
        """Do one write; what goes wrong is an answer too, since Py4J would make a page of text of an exception."""
        try:
            from headwater.spark.write.requests import run

            run(None if rows is None else _frame(rows), json.loads(request))
        except BaseException as error:
            token = _RAISED.keep(error)
            return json.dumps({"error": {"type": type(error).__name__, "message": str(error), "token": token}})
        return "{}"

    class Java:
        """Py4J's way to say what this implements."""

        implements = ("io.headwater.spark.PythonWriter",)


_WRITER = DriverWriter()


def enable_writes(spark: SparkSession) -> None:
    """Let a session write through Headwater: `df.write.format("headwater")`, `INSERT`, `CREATE TABLE … AS SELECT`.

    `headwater.configure` does this for the session that it makes. Call it where the session was made otherwise, with
    the connector's jar on its class path. It starts PySpark's callback channel (a local port, as `foreachBatch` does)
    and tells the connector whom to call.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise SparkSetupError(
            "this is a Spark Connect session, or one that was stopped: writes are done by the process that runs the "
            "JVM's Python driver; use headwater.spark.write.save(df, path, mode, options)"
        )
    from headwater.spark.fallback import has_connector

    if not has_connector(spark):
        raise ConnectorNotFound(
            "the session has no Headwater connector on its class path; make it with headwater.configure(…)"
        )
    import pyspark.java_gateway

    gateway: Any = pyspark.java_gateway
    gateway.ensure_callback_server_started(spark.sparkContext._gateway)
    jvm.io.headwater.spark.PythonWriters.register(_WRITER)
    _tell_errors_as_they_were()


def _frame(rows: Any) -> Any:
    """The Dataset as PySpark has it, in the session that it belongs to."""
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    context: Any = SparkContext._active_spark_context
    return DataFrame(rows, SparkSession(context, rows.sparkSession()))


def _tell_errors_as_they_were() -> None:
    """PySpark makes Python errors of Java's in one function; where ours is behind one, that function gives it back."""
    import pyspark.errors.exceptions.captured

    captured: Any = pyspark.errors.exceptions.captured
    plain = captured.convert_exception
    if getattr(plain, "tells_headwater", False):
        return

    def convert_exception(error: Any) -> Any:
        found = _behind(error)
        return plain(error) if found is None else found

    convert_exception.tells_headwater = True  # type: ignore[attr-defined]
    captured.convert_exception = convert_exception


def _behind(error: Any) -> BaseException | None:
    for _ in range(_DEEPEST_CAUSE):
        if error is None:
            return None
        if str(error.getClass().getName()) == _EXCEPTION:
            return _RAISED.take(str(error.token()))
        error = error.getCause()
    return None
