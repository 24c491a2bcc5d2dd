"""Files that are cut off, damaged, hostile or of another kind: one sentence, and no memory taken."""

import math
import random
import struct

import pytest
from measured import PeakMemory
from stored import described, same, write_raw

import minigrad as mg
from minigrad import serialization


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def refused(path):
    """Load a bad file; return the message, which must be one line that names the file."""
    with pytest.raises(ValueError, match="can't load") as caught:
        mg.load(path)
    assert caught.value.__suppress_context__  # no traceback from inside the library
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_file_cut_off_anywhere_is_refused(path):
    mg.save({"w": mg.ones(3), "step": 1}, path)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        refused(path)
    path.write_bytes(whole + b"more")
    refused(path)


def test_a_file_with_one_wrong_bit_is_refused(path):
    """Wherever it is: in the header's length, the header, the description, the tensors or their checksum."""
    obj = {"w": mg.ones(3), "x": [1, mg.zeros(2, 2)], "t": (1.5, math.inf)}
    mg.save(obj, path)
    whole = path.read_bytes()
    rng = random.Random(0)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        if whole[place : place + 1] == b" " and not bytes(damaged[place : place + 1]).strip():
            assert same(mg.load(path), obj)  # other white space in the header's padding
        else:
            refused(path)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\x00" * 8, b"\xff" * 64, b"PK\x03\x04 a zip file", "ä text".encode("utf-16")]
)
def test_files_of_another_kind_are_refused(content, path):
    path.write_bytes(content)
    refused(path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b"null",
        {"x": 3},
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]}},
        {"x": {"dtype": "F32", "shape": [2**40, 2**40, 0], "data_offsets": [0, 0]}},
        {"x": {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
        {"x": {"dtype": "object", "shape": [1], "data_offsets": [0, 4]}},
        {"x": {"dtype": "C64", "shape": [0], "data_offsets": [0, 0]}},
        {"__metadata__": {"minigrad": 3}},
    ],
    ids=range(14),
)
def test_hostile_headers_are_refused(header, path):
    write_raw(path, header, b"1234")
    refused(path)


@pytest.mark.parametrize(
    "description",
    [
        "",
        "no JSON",
        "3",
        "[" * 50_000,
        '{"version": 1}',
        '{"version": 2, "object": 1}',
        '{"version": 1, "object": ' + "[" * 50_000 + "]" * 50_000 + "}",
        '{"version": 1, "object": ' + '{"tuple": [' * 400 + "]}" * 400 + "}",
        '{"version": 1, "object": {"tensor": "none"}}',
        '{"version": 1, "object": {"tensor": []}}',
        '{"version": 1, "object": {"array": null}}',
        '{"version": 1, "object": {"float": "much"}}',
        '{"version": 1, "object": {"dict": [[[], 1]]}}',
        '{"version": 1, "object": {"dict": [[1]]}}',
        '{"version": 1, "object": {"dict": 1}}',
        '{"version": 1, "object": {"tuple": 1}}',
        '{"version": 1, "object": {"import": "os"}}',
        '{"version": 1, "object": {}}',
        '{"version": 1, "object": {"float": "inf", "tuple": []}}',
        '{"version": 1, "object": ' + "9" * 10_000 + "}",
    ],
    ids=range(20),
)
def test_hostile_descriptions_are_refused(description, path):
    write_raw(path, {"__metadata__": described(description)})
    assert "checksum" not in refused(path)


def test_a_file_without_its_checksum_is_refused(path):
    metadata = described('{"version": 1, "object": 7}')
    write_raw(path, {"__metadata__": metadata})
    assert mg.load(path) == 7
    for name in metadata:
        write_raw(path, {"__metadata__": {key: value for key, value in metadata.items() if key != name}})
        assert "checksum" in refused(path)
    write_raw(path, {"__metadata__": {serialization.ENTRY: metadata[serialization.ENTRY]}})
    assert "it has no checksum, so an older version of minigrad wrote it" in refused(path)
    assert "damaged" not in refused(path)


def test_lists_that_would_take_much_memory_are_not_read(path):
    """Two bytes of JSON can make a list of 72: a header of 3 MB would take 200 MB."""
    write_raw(path, {"__metadata__": described('{"version": 1, "object": [' + "[]," * 1_200_000 + "0]}")})
    with PeakMemory() as memory:
        assert "1,200,002 lists and dicts" in refused(path)
    assert memory.peak < 20_000_000


def test_a_file_with_other_metadata_gives_its_tensors(path):
    header = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
    }
    write_raw(path, header, struct.pack("<f", 2.5))
    assert same(mg.load(path), {"w": mg.tensor([2.5])})


def test_an_absurd_header_takes_no_memory(path):
    path.write_bytes(struct.pack("<Q", 20_000_000) + b"{" + b" " * 100)
    with PeakMemory() as memory:
        assert "20000000" in refused(path)
    assert memory.peak < 1_000_000
