"""The captions: true of their scene, and true of others exactly where the album says so."""

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from querytruth.sample_album.album import AlbumImage, CaptionClaims, CaptionRequirement, read_table, read_words

WORDS = read_words()
NUMBERS = {"en": ("no", "one", "two", "three", "four", "five", "six"), "zh": "零一两三四五六"}


def _holds(claims: CaptionClaims, image: AlbumImage) -> bool:
    """Whether all that a caption says is true, asked of every single thing in the image."""
    things = [(label, colour) for label, colour, count in image.facts for _ in range(count)]
    answers = [
        claims.place is None or claims.place == image.place,
        claims.light is None or claims.light == image.light,
    ]
    for wanted in claims.required:
        matching = [
            thing
            for thing in things
            if thing[0] == wanted.label and (wanted.colour is None or thing[1] == wanted.colour)
        ]
        answers.append(len(matching) >= 1 if wanted.count is None else len(matching) == wanted.count)
    return all(answers)


def _fitting(images: list[AlbumImage]) -> dict[str, list[str]]:
    fitting: dict[str, list[str]] = {image.file_name: [] for image in images}
    for row in read_table("fitting", images):
        fitting[row["file_name"]].append(row["fits"])
    return fitting


def _describe(image: AlbumImage) -> CaptionClaims:
    """All that is to be seen: of each label how many, and how many of each colour."""
    required = []
    for label in dict.fromkeys(label for label, _, _ in image.facts):
        own = [(colour, count) for one, colour, count in image.facts if one == label]
        required.append(CaptionRequirement(label, None, sum(count for _, count in own)))
        required += [CaptionRequirement(label, colour, count) for colour, count in own]
    return CaptionClaims(image.place, image.light, tuple(required))


def _name_in_english(requirement: CaptionRequirement) -> str:
    label, colour, count = requirement.label, requirement.colour, requirement.count
    noun = WORDS["labels"][label]["singular_en" if count in (None, 1) else "plural_en"]
    if colour and label == "Person":
        noun = f"{noun} in {colour}"
    elif colour and " of " in noun:  # a pair of red shoes, not a red pair of shoes
        noun = noun.replace(" of ", f" of {colour} ")
    elif colour:
        noun = f"{colour} {noun}"
    return f"{NUMBERS['en'][count]} {noun}" if count else f"{'an' if re.match('[aeiou]|SUV', noun) else 'a'} {noun}"


def _name_in_chinese(requirement: CaptionRequirement) -> str:
    number, words = NUMBERS["zh"][requirement.count or 1], WORDS["labels"][requirement.label]
    if not requirement.colour:
        return f"{number}{words['measure_word_zh']}{words['zh']}"
    colour = WORDS["colours"][requirement.colour]
    if requirement.label == "Person":
        return f"{number}个穿{colour}上衣的人"
    return f"{number}{words['measure_word_zh']}{colour}的{words['zh']}"


def _join(things: Iterable[str], comma: str, last: str) -> str:
    *others, end = things
    return last.join([comma.join(others), end]) if others else end


def _write_in_english(claims: CaptionClaims) -> set[str]:
    """Every sentence that says this and nothing else."""
    things = [_name_in_english(requirement) for requirement in claims.required]
    listed = _join(things, ", ", " and ")
    place, light = (WORDS["places"][claims.place or ""]["en"], claims.light and WORDS["lights"][claims.light]["en"])
    where = f"{place} {light}" if light else place
    verb = "are" if (claims.required[0].count or 1) > 1 else "is"
    sentences = {f"{listed} {where}.", f"{where}, there {verb} {listed}."}
    if len(things) > 1:
        sentences.add(f"{things[0]} with {_join(things[1:], ', ', ' and ')} {where}.")
    return {sentence[0].upper() + sentence[1:] for sentence in sentences}


def _write_in_chinese(claims: CaptionClaims) -> set[str]:
    listed = _join(map(_name_in_chinese, claims.required), "、", "和")
    light = WORDS["lights"][claims.light]["zh"] if claims.light else ""
    where = light + WORDS["places"][claims.place or ""]["zh"]
    return {f"{where}有{listed}。", f"在{where}拍到的{listed}。", f"{listed}，在{where}。"}


def test_fitting_scenes_are_those_of_which_every_claim_holds(good: list[AlbumImage]) -> None:
    fitting = _fitting(good)
    for one in good:
        assert one.claims is not None and _holds(one.claims, one), one.file_name
        expected = [other.file_name for other in good if other is not one and _holds(one.claims, other)]
        assert fitting[one.file_name] == expected


def test_exactly_the_promised_number_of_captions_fits_several_scenes(scenes: list[AlbumImage]) -> None:
    sizes = Counter(len(others) + 1 for others in _fitting(scenes).values())
    assert sum(count for size, count in sizes.items() if size > 1) == 36
    assert set(sizes) == {1, 2, 3, 4, 5}


def test_faulty_files_have_no_captions_and_fit_nothing(album: list[AlbumImage]) -> None:
    faulty = {image.file_name for image in album if image.defect}
    for name in ("captions", "descriptions"):
        rows = read_table(name, album)
        assert {row["file_name"] for row in rows} == {image.file_name for image in album} - faulty
        assert Counter(row["language"] for row in rows) == {"zh": 252, "en": 252}
    assert not faulty & {name for row in read_table("fitting", album) for name in row.values()}


@pytest.mark.parametrize("name", ["captions", "descriptions"])
def test_captions_say_what_they_claim_and_nothing_else(good: list[AlbumImage], name: str) -> None:
    by_name = {image.file_name: image for image in good}
    for row in read_table(name, good):
        image = by_name[row["file_name"]]
        claims = image.claims if name == "captions" else _describe(image)
        assert claims is not None and claims.place
        write = _write_in_english if row["language"] == "en" else _write_in_chinese
        assert row["caption"] in write(claims), row["caption"]


def test_captions_are_written_as_people_write(good: list[AlbumImage]) -> None:
    for row in read_table("captions", good):
        caption = row["caption"]
        if row["language"] == "zh":
            assert re.fullmatch(r"[\u4e00-\u9fff，、]+。", caption), caption
            continue
        assert re.fullmatch(r"[A-Z][A-Za-z, -]+\.", caption), caption
        assert not re.search(r"\ba (?:[aeiou]|SUV)|\ban (?!SUV)[^aeiou]| {2}", caption, re.IGNORECASE), caption
