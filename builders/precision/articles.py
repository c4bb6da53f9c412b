"""The English indefinite article before a word, by its spelling."""

_CONSONANTS = ("uni", "use", "usb", "usu", "ute", "uti", "uri", "uku", "eu", "ewe", "one", "once")  # you-, won-
_VOWELS = ("hour", "honest", "honor", "honour", "heir", "unid", "unim", "unin")  # our, un-important


def choose_article(word: str) -> str:
    """Returns "an" before the sound of a vowel, else "a"."""
    start = word.casefold()
    if start.startswith(_VOWELS):
        return "an"
    return "an" if start[:1] in set("aeiou") and not start.startswith(_CONSONANTS) else "a"
