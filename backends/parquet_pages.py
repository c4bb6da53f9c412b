"""The headers of the pages of a Parquet file, which state what the pages unpack to.

The footer states sums, too, but nothing holds a file to them: Arrow allocates what a page's own header asks for. The
headers are in Thrift's compact protocol: https://github.com/apache/parquet-format, PageHeader.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

_HEADER_BYTES = (1 << 12, 1 << 20)  # read at first, and at most
_DICTIONARY = 2  # a type of page
_DELTA_STRINGS = 7  # an encoding: values repeat the start of the value before
_MAX_NESTING = 8
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12  # types of the protocol
_PAGE_TYPE, _SIZE, _STORED_SIZE, _DATA, _DICTIONARY_DATA, _DATA_V2 = 1, 2, 3, 5, 7, 8  # fields of PageHeader
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4  # fields of its structs

_Struct = dict[int, Any]


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page states: its bytes unpacked (`size`) and in the file, and its number of values, nulls too;
    `is_delta`: whether a value may repeat the one before, and so be as long as the page."""

    size: int
    stored_size: int
    values: int
    is_dictionary: bool
    is_delta: bool


def read_page_headers(file: BinaryIO, chunk: Any) -> Iterator[PageHeader]:
    """Yields the headers that Arrow follows in a column chunk (pyarrow's ColumnChunkMetaData) of a file. Raises OSError
    for one that cannot be read, or that lies outside the file."""
    end, seen = file.seek(0, os.SEEK_END), 0
    start = cast(int, chunk.data_page_offset)
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    while seen < chunk.num_values:
        if not 0 < start < end:
            raise OSError(errno.EINVAL, "names a page outside the file")
        length, header = _read_header(file, start)
        yield header
        seen += 0 if header.is_dictionary else header.values
        start += length + header.stored_size


def _read_header(file: BinaryIO, start: int) -> tuple[int, PageHeader]:
    """Returns the length of the header at an offset, and what it states."""
    for size in _HEADER_BYTES:
        file.seek(start)
        reader = _CompactReader(file.read(size))
        try:
            fields = reader.read_struct(_MAX_NESTING)
            header = _describe(fields)
        except IndexError:
            continue
        except (KeyError, TypeError, ValueError):
            break
        return reader.place, header
    raise OSError(errno.EINVAL, "has a page without a readable header")


def _describe(fields: _Struct) -> PageHeader:
    is_dictionary = fields[_PAGE_TYPE] == _DICTIONARY
    if is_dictionary:
        data, encoding = fields[_DICTIONARY_DATA], _ENCODING
    elif _DATA in fields:
        data, encoding = fields[_DATA], _ENCODING
    elif _DATA_V2 in fields:
        data, encoding = fields[_DATA_V2], _ENCODING_V2
    else:  # a page of an index, which Arrow skips
        data, encoding = {_VALUES: 0, _ENCODING: 0}, _ENCODING
    sizes = int(fields[_SIZE]), int(fields[_STORED_SIZE]), int(data[_VALUES])
    if min(sizes) < 0:
        raise ValueError
    return PageHeader(*sizes, is_dictionary, data[encoding] == _DELTA_STRINGS)


class _CompactReader:
    """Reads structs of Thrift's compact protocol. Raises IndexError at the end of the bytes, ValueError for what is
    none."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def read_struct(self, depth: int) -> _Struct:
        """Returns integers and structs by the number of their field; other values are skipped."""
        fields, number = _Struct(), 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._zigzag()
            value = self._value(kind, depth, in_list=False)
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if not depth:
            raise ValueError
        if kind in (_TRUE, _FALSE):
            self.place += in_list
        elif kind == _BYTE:
            self.place += 1
        elif _BYTE < kind < _DOUBLE:
            return self._zigzag()
        elif kind in (_DOUBLE, _BINARY):
            length = 8 if kind == _DOUBLE else self._varint()
            self.place += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(head & 15, depth - 1, in_list=True)
                self._check_end()
        elif kind == _STRUCT:
            return self.read_struct(depth - 1)
        else:
            raise ValueError
        self._check_end()
        return None

    def _check_end(self) -> None:
        if self.place > len(self.data):
            raise IndexError

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
