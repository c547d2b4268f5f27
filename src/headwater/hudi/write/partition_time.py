"""Partition values of time-based key generators: a column's times, written by a pattern in a zone (facts 4.5, 15.6)."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InvalidTableConfig, UnsupportedTable
from headwater.hudi.write.joda import Moment, Pattern, Zone

PREFIXES = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.", "hoodie.streamer.keygen.timebased.")
_UNITS = {
    "NANOSECONDS": (1, 1_000_000),
    "MICROSECONDS": (1, 1_000),
    "MILLISECONDS": (1, 1),
    "SECONDS": (1_000, 1),
    "MINUTES": (60_000, 1),
    "HOURS": (3_600_000, 1),
    "DAYS": (86_400_000, 1),
}
_UNIT_OF_TYPE = {"UNIX_TIMESTAMP": "SECONDS", "EPOCHMILLISECONDS": "MILLISECONDS", "EPOCHMICROSECONDS": "MICROSECONDS"}
_TEXTS = ("DATE_STRING", "MIXED")
_TYPES = (*_UNIT_OF_TYPE, *_TEXTS, "SCALAR")
_QUARTER = 15 * 60_000
_SINCE_1972 = 63_072_000_000
_CUSTOM_ZONE = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d\d))?")


@dataclass(frozen=True)
class PartitionTime:
    """What a table says about its time-based partition column.

    >>> PartitionTime.of({"hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    ...     "hoodie.keygen.timebased.timezone": "GMT+8:00",
    ...     "hoodie.keygen.timebased.output.dateformat": "yyyyMMddHH"}).texts(pa.array([1_700_000_000])).to_pylist()
    ['2023111506']
    """

    type: str
    unit: tuple[int, int] | None
    output: Pattern
    inputs: tuple[Pattern, ...]
    input_zone: Zone
    has_input_zone: bool
    output_zone: Zone
    has_output_zone: bool

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> PartitionTime:
        """Read and check the properties; those of older releases have another prefix."""

        def find(key: str) -> str | None:
            return next((properties[prefix + key] for prefix in PREFIXES if properties.get(prefix + key)), None)

        kind = find("timestamp.type")
        output = find("output.dateformat")
        if kind is None or output is None:
            missing = [
                name for name, value in (("timestamp.type", kind), ("output.dateformat", output)) if value is None
            ]
            raise InvalidTableConfig(
                f"partitions are made of times, and {PREFIXES[0]}{missing[0]} is not known (Apache Hudi 0.15 does not "
                "store it with the table); give it as a write option"
            )
        kind = kind.upper()
        if kind not in _TYPES:
            raise InvalidTableConfig(f"{PREFIXES[0]}timestamp.type={kind} (known: {', '.join(_TYPES)})")
        name = (
            (find("timestamp.scalar.time.unit") or "SECONDS").upper() if kind == "SCALAR" else _UNIT_OF_TYPE.get(kind)
        )
        if name is not None and name not in _UNITS:
            raise InvalidTableConfig(f"{PREFIXES[0]}timestamp.scalar.time.unit={name} (known: {', '.join(_UNITS)})")
        formats: tuple[Pattern, ...] = ()
        if kind in _TEXTS:
            text = find("input.dateformat")
            if text is None:
                raise InvalidTableConfig(f"{PREFIXES[0]}input.dateformat is missing; give it as a write option")
            delimiter = find("input.dateformat.list.delimiter.regex") or ","
            formats = tuple(Pattern(part.strip()) for part in re.split(delimiter, text))
        both = find("timezone")
        into, out = both or find("input.timezone"), both or find("output.timezone")
        return cls(
            kind,
            None if name is None else _UNITS[name],
            Pattern(output),
            formats,
            None if into is None else _zone(into),
            into is not None,
            None if out is None else _zone(out),
            out is not None,
        )

    def texts(self, column: pa.Array) -> pa.DictionaryArray:
        """Each value's text; null is taken as the epoch, as in Hudi."""
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return self._of_texts(column.cast(pa.string()))
        return self._of_numbers(self._milliseconds(column))

    def _milliseconds(self, column: pa.Array) -> npt.NDArray[np.int64]:
        if self.unit is None:
            raise UnsupportedTable(
                f"partitions are made of times that are texts ({self.type}), and the column is {column.type}; cast it"
            )
        kind = column.type
        if pa.types.is_timestamp(kind) or pa.types.is_date32(kind) or pa.types.is_integer(kind):
            # Hudi takes the stored number in the unit that it was told, whatever the column's own unit is.
            stored = column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(kind) else column.cast(pa.int64())
        elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            stored = column.cast(pa.int64(), safe=False)
        else:
            raise UnsupportedTable(f"partitions are made of times, and a column of {kind} cannot be read as one")
        numbers = np.asarray(stored.fill_null(1)).astype(np.int64)
        times, over = self.unit
        # Java cuts towards zero.
        milliseconds: npt.NDArray[np.int64] = np.sign(numbers) * (np.abs(numbers) // over) * times
        return milliseconds

    def _of_numbers(self, milliseconds: npt.NDArray[np.int64]) -> pa.DictionaryArray:
        floored = milliseconds
        if not self.output.tells_seconds and len(milliseconds) and milliseconds.min() >= _SINCE_1972:
            # Since 1972 every zone is a number of quarters of an hour away from UTC: fewer times have to be written.
            step = 60_000 if self.output.tells_minutes else _QUARTER
            floored = milliseconds // step * step
        distinct, places = np.unique(floored, return_inverse=True)
        zone = self.output_zone if self.has_output_zone else None
        texts = [self.output.format(Moment.at(int(value), zone)) for value in distinct]
        return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(texts, pa.string()))

    def _of_texts(self, column: pa.Array) -> pa.DictionaryArray:
        if not self.inputs:
            raise UnsupportedTable(
                f"partitions are made of times that are numbers ({self.type}), and the column is text"
            )
        encoded = column.fill_null(self._epoch_text).dictionary_encode()
        texts = [self._text_of(text) for text in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))

    @property
    def _epoch_text(self) -> str:
        zone: Zone = dt.timezone.utc
        if self.has_input_zone or self.has_output_zone:
            zone = self.input_zone if self.has_input_zone else self.output_zone
        return self.inputs[0].format(Moment.at(1, zone))

    def _text_of(self, text: str) -> str:
        time = self._parsed(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=self.input_zone) if self.has_input_zone else time.astimezone()
        elif self.has_input_zone:
            time = time.astimezone(self.input_zone)
        # Without a zone for the output, the one that the text says stays.
        return self.output.format(Moment(time.astimezone(self.output_zone) if self.has_output_zone else time))

    def _parsed(self, text: str) -> dt.datetime:
        error: Exception | None = None
        for pattern in self.inputs:
            try:
                return pattern.parse(text)
            except ValueError as found:
                error = error or found
        assert error is not None
        raise error


def _zone(name: str) -> dt.tzinfo:
    """A zone by the name that Java knows it under; what Java does not know means GMT there, and is refused here."""
    match = _CUSTOM_ZONE.fullmatch(name.strip())
    if match is not None:
        offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return dt.timezone(-offset if match[1] == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(name.strip())
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidTableConfig(f"{PREFIXES[0]}timezone={name} is no zone that is known here ({error})") from error
