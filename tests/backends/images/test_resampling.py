"""Resampling: the same image as Pillow's LANCZOS makes, exactly the same on every processor."""

import threading
from pathlib import Path

import numpy as np
import pytest
from cykooz_resizer import CpuExtensions, Resizer
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from querytruth.backends.images import image_colours as resampling
from querytruth.backends.images.image_colours import CropBox, ImageSize, resample

LANCZOS = Image.Resampling.LANCZOS


def photo(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Soft shapes with some grain: what a photo is to a filter."""
    rng = np.random.default_rng(7)
    bands = len(Image.new(mode, (1, 1)).getbands())
    coarse = rng.integers(0, 256, (max(1, size[1] // 6), max(1, size[0] // 6), bands), dtype=np.uint8)
    rows = [Image.fromarray(coarse[..., band]).resize(size, Image.Resampling.BICUBIC) for band in range(bands)]
    return Image.merge(mode, rows) if bands > 1 else rows[0]


def noise(size: tuple[int, int]) -> Image.Image:
    """Where values are cut off at black and white between the two directions, the order of these matters."""
    return Image.merge("RGB", [Image.effect_noise(size, 200) for _ in range(3)])


def apart(one: Image.Image, other: Image.Image) -> float:
    """The greatest difference of two values, and thirty times the mean one where that is more."""
    differences = np.abs(np.asarray(one, np.int16) - np.asarray(other, np.int16))
    return float(max(differences.max(), 30 * differences.mean()))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("size", [(90, 60), (60, 90), (300, 200), (200, 300), (30, 20), (40, 300), (1, 700), (700, 1)])
def test_the_image_is_that_of_pillows_lanczos(mode: str, size: tuple[int, int]) -> None:
    image = photo(size, mode)
    ours = resample(image, (48, 48), (0, 0, *size))
    assert (ours.mode, ours.size) == (mode, (48, 48))
    assert apart(ours, image.resize((48, 48), LANCZOS)) <= 2


@pytest.mark.parametrize("size", [(320, 240), (240, 320), (400, 100), (100, 400), (900, 700), (60, 40)])
def test_directions_follow_each_other_as_in_pillow(size: tuple[int, int]) -> None:
    image = noise(size)
    assert apart(resample(image, (128, 128), (0, 0, *size)), image.resize((128, 128), LANCZOS)) <= 2


def test_a_part_that_ends_within_pixels_is_met_exactly() -> None:
    image, box = photo((120, 90)), (10.25, 3.5, 99.75, 80.0)
    assert apart(resample(image, (40, 32), box), image.resize((40, 32), LANCZOS, box)) <= 2


def test_where_the_library_is_missing_it_is_pillow_that_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    image, box = photo((120, 90)), (10.25, 3.5, 99.75, 80.0)
    monkeypatch.setattr(resampling, "Resizer", None)
    assert resample(image, (40, 32), box) == image.resize((40, 32), LANCZOS, box)


def test_what_has_the_size_already_is_left_alone() -> None:
    image = photo((32, 32))
    assert resample(image, (32, 32), (0, 0, 32, 32)) is image


def with_instructions(extensions: CpuExtensions, image: Image.Image, size: ImageSize, box: CropBox) -> bytes:
    """As a processor does it that has these instructions at most."""

    class Limited(Resizer):
        def __init__(self) -> None:
            super().__init__()
            self.cpu_extensions = extensions
            assert self.cpu_extensions is extensions, "the library took others"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "Resizer", Limited)
        return resample(image, size, box).tobytes()


def instructions_here() -> list[CpuExtensions]:
    """Those of this processor, beside plain Rust, which every processor runs."""
    flags = set(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split())
    known = {"sse4_1": CpuExtensions.sse4_1, "avx2": CpuExtensions.avx2, "asimd": CpuExtensions.neon}
    return [extensions for flag, extensions in known.items() if flag in flags]


@given(
    st.sampled_from(["L", "RGB", "CMYK"]),
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.tuples(st.floats(0, 0.4), st.floats(0, 0.4), st.floats(0.6, 1), st.floats(0.6, 1)),
    st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_every_processor_makes_the_same_bytes(
    mode: str, stored: ImageSize, size: ImageSize, part: CropBox, seed: int
) -> None:
    bands = len(Image.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(seed).integers(0, 256, (stored[1], stored[0], bands), dtype=np.uint8)
    image = Image.frombytes(mode, stored, values.tobytes())
    for box in ((0, 0, *stored), (part[0] * stored[0], part[1] * stored[1], part[2] * stored[0], part[3] * stored[1])):
        plain = with_instructions(CpuExtensions.none, image, size, box)
        for extensions in instructions_here():
            assert with_instructions(extensions, image, size, box) == plain, extensions


def test_no_thread_is_started() -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    resample(photo((900, 700)), (300, 300), (0, 0, 900, 700))
    assert threads() == before and threading.active_count() <= before
