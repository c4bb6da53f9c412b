"""Images of the set by a text: their file name, their labels, their captions, and the queries they are right for."""

from collections.abc import Iterator

from builders.benchmark_set import Tables
from review.page_parts import text_or_empty
from review.query_cards import QueryCards

MAX_FOUND_IMAGES = 60
FoundImages = list[tuple[str, str]]  # image_id, and why it was found


def find_images_by_text(tables: Tables, cards: QueryCards, search: str) -> FoundImages:
    """Return up to 60 images with the reason: those with the text in their name first, then in a label, in a caption,
    and in a query that they are right for."""
    wanted = search.strip().casefold()
    found: dict[str, str] = {}
    if not wanted:
        return []
    for image_id, reason in _iterate_matches(tables, cards, wanted):
        found.setdefault(image_id, reason)
        if len(found) == MAX_FOUND_IMAGES:
            break
    return list(found.items())


def _iterate_matches(tables: Tables, cards: QueryCards, wanted: str) -> Iterator[tuple[str, str]]:
    columns = (tables.images[name] for name in ("image_id", "file_name", "caption"))
    images = [tuple(map(text_or_empty, row)) for row in zip(*columns, strict=True)]
    for name, image_id in sorted((name, one) for one, name, _ in images if wanted in name.casefold() or wanted == one):
        yield image_id, f"name: {name}"
    by_label = [entry for entry in cards.entries if any(wanted in label.casefold() for label in entry.labels)]
    for entry in sorted(by_label, key=lambda entry: (len(entry.labels), entry.query_id)):
        yield from _right_images(cards, entry.query_id, f"label: {' & '.join(entry.labels)}")
    for image_id, _, caption in images:
        if wanted in caption.casefold():
            yield image_id, f"caption: {caption}"
    for entry in cards.entries:
        if wanted in cards.text_of(entry).casefold():
            yield from _right_images(cards, entry.query_id, f"right for: {cards.text_of(entry)}")


def _right_images(cards: QueryCards, query_id: str, reason: str) -> Iterator[tuple[str, str]]:
    for image_id, grade in cards.get_grades(query_id).items():
        if grade > 0:
            yield image_id, reason
