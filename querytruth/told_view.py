"""What the review page's view of decisions reads of a set's logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.sets.set_files import StoredSet
    from review.told_words import ToldWords, Word


def told_words(stored: StoredSet) -> Callable[[], ToldWords]:
    """What people said of pictures and rejects, and the captions that they wrote, as the logs are when it is called."""
    from backends.sets import caption_log, decision_log
    from builders import hand_captions
    from builders.log_words import standing
    from builders.picture_decisions import PictureDecision, last_words
    from builders.rescues import last_rescues
    from review.told_words import ToldWords, followed

    folder, names = stored.path.parent, _names(stored)

    def text_of(word: Word) -> str:
        if isinstance(word, PictureDecision):
            return " and ".join(names.get(one, one) for one in word.pictures)
        return word.text

    def read() -> ToldWords:
        pictures, rescues = decision_log.read_pictures_on(folder)[0], decision_log.read_rescues_on(folder)[0]
        captions = hand_captions.standing(caption_log.read_on(folder)[0]).values()
        whose = {
            "Captions": [caption.reviewer for caption in captions],
            "Near-duplicates": [word.reviewer for word in standing(pictures)],
            "Rejects": [word.reviewer for word in standing(rescues)],
        }
        last: list[Word] = [*last_words(pictures), *last_rescues(rescues).values()]
        decided = stored.manifest["decisions"]
        return ToldWords(
            {kind: people for kind, people in whose.items() if people},
            followed([*pictures, *rescues], last, decided, text_of),
        )

    return read


def _names(stored: StoredSet) -> dict[str, str]:
    """What people call the pictures."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    found = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return found | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))
