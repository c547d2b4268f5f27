"""`python -m headwater.spark.sidecar`: started by a JVM, spoken to over stdin and stdout, dead when its JVM is.

One thread does nothing but read stdin: it exits the process where stdin ends, and cancels the running request.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import platform
import queue
import signal
import sys
import threading
from typing import BinaryIO

ROLE, THREADS, IMPORT, CACHE = "HEADWATER_ROLE", "HEADWATER_THREADS", "HEADWATER_IMPORT", "HEADWATER_CACHE"
"""Environment: docs/spark-connector.md says what they do."""
_PIPE_BYTES = 1024 * 1024
_DEFAULT_CACHE = "256MB"


def main() -> None:
    """Serve until stdin ends."""
    out = _take_stdout()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted shell is the JVM's business
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    threads = _threads()
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))

    import pyarrow as pa

    from headwater.spark.sidecar.frames import PROTOCOL, Kind, write_frame
    from headwater.spark.sidecar.server import Request, Server

    pa.set_cpu_count(threads)
    for module in filter(None, map(str.strip, os.environ.get(IMPORT, "").split(","))):
        importlib.import_module(module)
    # Plans are many small objects that live as long as their request: looking for cycles among them is wasted.
    gc.freeze()
    gc.set_threshold(100_000)
    version = str(sys.modules["headwater"].__version__)
    hello = {"protocol": PROTOCOL, "headwater": version, "python": platform.python_version(), "pid": os.getpid()}
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    source = os.fdopen(os.dup(0), "rb", buffering=_PIPE_BYTES)
    threading.Thread(target=_listen, args=(source, requests), daemon=True, name="stdin").start()
    server = Server(out, version, cache_bytes=_cache_bytes())
    try:
        write_frame(out, Kind.HELLO, json.dumps(hello).encode("utf-8"))
        if os.environ.get(ROLE) == "executor":
            threading.Thread(target=importlib.import_module, args=("polars",), daemon=True, name="warm-up").start()
        while True:
            server.answer(requests.get())
    except BrokenPipeError:
        os._exit(0)


def _take_stdout() -> BinaryIO:
    """The pipe to the JVM, for frames alone: what anybody prints goes to stderr."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return os.fdopen(pipe, "wb", buffering=64 * 1024)


def _threads() -> int:
    try:
        return max(1, int(os.environ.get(THREADS, "1")))
    except ValueError:
        return 1


def _cache_bytes() -> int:
    """Bytes of merged rows that are kept from one query to the next."""
    from headwater.pipeline import parse_memory

    text = os.environ.get(CACHE) or _DEFAULT_CACHE
    return 0 if text.strip() == "0" else parse_memory(text)


def _listen(source: BinaryIO, requests: queue.SimpleQueue[object]) -> None:
    from headwater.spark.sidecar.frames import BrokenFrames, Kind, read_frame
    from headwater.spark.sidecar.server import Request

    latest: Request | None = None
    try:
        while (frame := read_frame(source)) is not None:
            kind, payload = frame
            if kind is Kind.CANCEL:
                if latest is not None:
                    latest.cancelled.set()
                continue
            if kind is not Kind.QUERY:
                raise BrokenFrames(f"a frame of kind {kind.name} where a request was expected")
            query = json.loads(payload)
            blobs = []
            for _ in range(int(query.get("blobs") or 0)):
                blob = read_frame(source)
                if blob is None:
                    os._exit(0)
                if blob[0] is not Kind.BLOB:
                    raise BrokenFrames(f"a frame of kind {blob[0].name} where a blob was expected")
                blobs.append(blob[1])
            latest = Request(query, blobs)
            requests.put(latest)
    except BaseException as error:
        print(f"headwater sidecar: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    os._exit(0)


if __name__ == "__main__":
    main()
