"""What is a fault of the environment and what may be an item's, and which library a line names."""

import io
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from querytruth.backends.environment import (
    find_tested_version,
    is_certain_environment_fault,
    is_out_of_memory,
    library_of,
    make_environment_fault,
    may_be_environment_fault,
    translate_environment_faults,
)
from querytruth.backends.images import image_decoding
from querytruth.backends.images.rendering import ThumbnailJob
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.models.request_images import decode_upright
from querytruth.backends.plugins import missing_library_error
from querytruth.errors import UserError
from tests.images import encode_image

OF_THE_ENVIRONMENT = [
    AttributeError("'DynamicLayer' object has no attribute 'dtype'"),
    ModuleNotFoundError("No module named 'torchvision'"),
    NameError("name 'Cache' is not defined"),
    TypeError("generate() got an unexpected keyword argument 'cache'"),
    NotImplementedError("Could not run 'aten::_foo' with arguments from the 'CUDA' backend"),
    AssertionError("Torch not compiled with CUDA enabled"),
    RuntimeError("Found no NVIDIA driver on your system"),
    RuntimeError("CUDA error: no kernel image is available for execution on the device"),
    RuntimeError("operator torchvision::nms does not exist: no such operator"),
    RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"),
    OSError("libcudnn.so.9: cannot open shared object file: No such file or directory"),
]
OF_ITEMS = [
    ValueError("absolute aspect ratio must be smaller than 200, got 450.0"),
    RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
    MemoryError(),
    OSError("image file is truncated"),
    UserError("a", "b", "c", "d"),
]


@pytest.mark.parametrize("error", OF_THE_ENVIRONMENT, ids=str)
def test_errors_of_libraries_drivers_and_devices_may_be_the_environments(error: Exception) -> None:
    assert may_be_environment_fault(error)
    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = error
    assert may_be_environment_fault(wrapped)


@pytest.mark.parametrize("error", OF_ITEMS, ids=repr)
def test_errors_of_items_and_of_memory_are_not(error: Exception) -> None:
    assert not may_be_environment_fault(error)
    assert not is_certain_environment_fault(error)


def test_memory_is_recognized_by_kind_and_text() -> None:
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(ValueError("out of memory"))


def raise_and_catch(work: Any) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("it raises")


@pytest.mark.thorough
def test_the_library_is_that_of_the_object_of_the_frame_or_of_what_was_called() -> None:
    pandas, numpy = f"pandas {version('pandas')}", f"numpy {version('numpy')}"
    assert library_of(raise_and_catch(lambda: pd.Series([1]).gone)) == pandas
    assert library_of(raise_and_catch(lambda: np.gone)) == numpy
    assert library_of(raise_and_catch(lambda: pd.concat([1]))) == pandas
    assert library_of(TypeError("raised by nobody"), np.float64(1)) == numpy
    assert library_of(raise_and_catch(lambda: pd.Series([1]).gone), np.float64(1)) == f"{numpy} (in {pandas})"
    assert library_of(raise_and_catch(lambda: int("a"))) == ""


def test_the_line_names_stage_item_library_and_next_step() -> None:
    with pytest.raises(UserError) as shown, translate_environment_faults("embed texts", "tiny", np.float64(1)):
        raise AttributeError("no attribute 'dtype'\nand more")
    line = str(shown.value)
    assert "\n" not in line
    assert line.startswith("tiny (embed texts): failed in this environment: AttributeError: no attribute 'dtype', in n")
    assert "Next: install a working release of numpy" in line
    device = make_environment_fault("train", "tiny", AssertionError("Torch not compiled with CUDA enabled"))
    assert "set the device to cpu" in device.next_step
    missing = ModuleNotFoundError("No module named 'torchvision'", name="torchvision.ops")
    assert make_environment_fault("train", "tiny", missing).next_step.startswith("pip install torchvision,")


def test_a_library_of_another_version_is_shown_beside_the_tested_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("querytruth.backends.environment.version", lambda _name: "9.0.1")
    with pytest.raises(UserError) as shown, translate_environment_faults("embed texts", "tiny", np.float64(1)):
        raise AttributeError("no attribute 'dtype'")
    tested = find_tested_version("numpy")
    assert f"in numpy 9.0.1 (tested with {tested})" in str(shown.value)
    assert f"Next: install numpy=={tested} (querytruth doctor" in str(shown.value)


def test_errors_of_items_pass_as_they_are() -> None:
    with pytest.raises(ValueError, match="odd"), translate_environment_faults("embed texts", "tiny"):
        raise ValueError("odd")


def test_a_library_that_is_there_and_cannot_be_imported_is_not_said_to_be_missing() -> None:
    broken = ImportError("cannot import name 'DynamicLayer' from 'transformers.cache_utils'", name="transformers")
    assert "not installed" not in str(missing_library_error("load", "tiny", broken))
    assert "needs torch, which is not installed" in str(
        missing_library_error("load", "tiny", ModuleNotFoundError("No module named 'torch'", name="torch"))
    )


def png(path: Path) -> bytes:
    data = encode_image(Image.new("RGB", (90, 60), "red"), "PNG")
    path.write_bytes(data)
    return data


def test_a_broken_decoder_is_no_fault_of_a_questions_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = png(tmp_path / "a.png")

    def broken(*_: object) -> None:
        raise AttributeError("module 'PIL._imaging' has no attribute 'zip_decoder'")

    monkeypatch.setitem(image_decoding._OPEN, "PNG", broken)
    with pytest.raises(UserError, match=r"decode images.*Pillow \d+.*zip_decoder"):
        decode_upright(data)


def test_one_file_with_such_an_error_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = png(tmp_path / "a.png")
    whole = image_decoding._OPEN["PNG"]

    def odd(file: io.BytesIO) -> Any:
        if file.getvalue() == data:
            raise TypeError("an odd chunk")
        return whole(file)

    monkeypatch.setitem(image_decoding._OPEN, "PNG", odd)
    failure: Any = decode_upright(data)
    assert (failure.reason, failure.detail) == ("image_undecodable", "TypeError")


def _fail(_job: ThumbnailJob) -> bytes:
    raise ImportError("cannot decode PNG here")


@pytest.mark.thorough
def test_a_worker_process_hands_it_on_as_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot decode PNG here"):
        list(map_in_workers(_fail, [ThumbnailJob(str(tmp_path / "a.png"), 64)]))
