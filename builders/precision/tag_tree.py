"""The concepts of queries: the label table, the tag tree above it, and the English article before each name."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd

from querytruth.errors import UserError, suggest_choice
from querytruth.sets.ledger import Ledger, Rejection, rejection_table
from querytruth.sets.query_texts import describe_code_points, find_alike_names, find_joined_names, join_spellings

_CONSONANTS = ("uni", "use", "usb", "usu", "ute", "uti", "uri", "uku", "eu", "ewe", "one", "once")  # you-, won-
_VOWELS = ("hour", "honest", "honor", "honour", "heir", "unid", "unim", "unin")  # our, un-important
LANGUAGES = ("zh", "en")
LABEL_COLUMNS = ["id", "name", "zh", "en", "article", "plural", "parent"]
TREE_COLUMNS = ["node", "parent", "zh", "en", "article", "plural"]
_CHINESE = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_ENGLISH_WORD = re.compile(r"[A-Za-z]*[a-z]{3,}")
# Ids of Open Images, ImageNet and Wikidata, numbers, "class_3", "__ignore__"; and what has no label.
_NO_NAME = re.compile(
    r"/[a-z]/[\w/]+|n\d{6,}(?:-\w+)?|Q\d{3,}|[\d\W_]+|_+.*_+|(?:class|cls)[ _-]?\d+"
    r"|background|void|ignored?|unlabell?ed|unknown|undefined|none|n/a|others?|misc|don'?t[ _-]?care"
    r"|背景|未知|未标注|未分类|其[他它]|忽略|无",
    re.IGNORECASE,
)
_table_error = partial(UserError, "label table")


def choose_article(word: str) -> str:
    """Return "an" before the sound of a vowel, else "a"."""
    start = word.casefold()
    if start.startswith(_VOWELS):
        return "an"
    return "an" if start[:1] in set("aeiou") and not start.startswith(_CONSONANTS) else "a"


@dataclass(frozen=True, slots=True)
class LabelConcept:
    """A label of the annotations, or an inner node of the tree. `key`: the label's stripped official name, or the
    node's key; `parent`: the key of a node, '' directly below the root; `plural`: '' where unknown."""

    key: str
    parent: str
    zh: str
    en: str
    article: str = ""
    plural: str = ""
    kind: str = ""  # of a fact of files: person, city, year …

    def name(self, language: str) -> str:
        """Return the name in a language."""
        return self.zh if language == "zh" else self.en

    def with_article(self) -> str:
        """Return the English name with its article."""
        return f"{self.article} {self.en}".strip()


@dataclass(frozen=True, slots=True)
class TagTree:
    """All labels in table order, then all nodes but the root in file order."""

    labels: tuple[LabelConcept, ...]
    nodes: tuple[LabelConcept, ...] = ()

    @property
    def concepts(self) -> tuple[LabelConcept, ...]:
        """Return the labels, then the nodes above them; the position of a concept is its code."""
        return self.labels + self.nodes

    def edges(self) -> list[tuple[str, str]]:
        """Return all (parent, child) edges below the root."""
        return [(concept.parent, concept.key) for concept in self.concepts if concept.parent]


def build_tag_tree(labels: pd.DataFrame, tree: pd.DataFrame | None, source: str) -> TagTree:
    """Join both tables (columns of strings). Raises UserError for the first faulty row."""
    _require_columns(labels, LABEL_COLUMNS, f"{source}/labels.csv")
    nodes: list[LabelConcept] = []
    root = ""
    if tree is not None:
        _require_columns(tree, TREE_COLUMNS, f"{source}/tree.csv")
        roots = list(tree.loc[tree["parent"] == "", "node"])
        if len(roots) != 1:
            raise _table_error(f"{source}/tree.csv", f"has {len(roots)} rows without a parent", "keep one root")
        root = roots[0]
        nodes = [
            LabelConcept(r.node, "" if r.parent == root else r.parent, r.zh, r.en, r.article, r.plural)
            for r in tree.itertuples(index=False)
            if r.node != root
        ]
    concepts = [
        LabelConcept(str(r.name_).strip(), "" if r.parent == root else r.parent, r.zh, r.en, r.article, r.plural)
        for r in labels.rename(columns={"name": "name_"}).itertuples(index=False)
    ]
    built = TagTree(tuple(concepts), tuple(nodes))
    _check_names(built, source)
    _check_parents(built, source)
    return built


def build_tree_from_categories(
    categories: pd.DataFrame, supercategories: bool, words: Mapping[str, tuple[str, str]]
) -> TagTree:
    """Build the labels from the annotations: names only, unchanged; `words`: article and plural of known words,
    casefolded; the article of other names is guessed. With `supercategories` each group of two or more labels becomes a
    node, unless a label has the same name. Spellings of the same text are one label. Raises UserError if two names
    only look the same."""
    categories = categories.assign(name=categories["name"].replace(find_joined_names(categories["name"])))
    names = sorted(set(categories["name"]))
    _check_alike(names, "annotations")
    groups: dict[str, str] = {}
    if supercategories:
        by_name = categories.drop_duplicates("name").set_index("name")["supercategory"]
        sizes, folded = Counter(by_name), {name.casefold() for name in names}
        groups = {n: g for n, g in by_name.items() if g and sizes[g] > 1 and g.casefold() not in folded}
    grammar = {name: _find_grammar(name, words) for name in {*names, *groups.values()}}
    facts = categories.assign(**{"kind": "", "zh": ""} | dict(categories)).drop_duplicates("name").set_index("name")
    kinds, chinese = (facts[column].fillna("").to_dict() for column in ("kind", "zh"))
    labels = tuple(
        LabelConcept(n, groups.get(n, ""), chinese[n] or n, n, *(("", "") if kinds[n] else grammar[n]), kinds[n])
        for n in names
    )
    nodes = tuple(LabelConcept(name, "", name, name, *grammar[name]) for name in sorted(set(groups.values())))
    return TagTree(labels, nodes)


def _find_grammar(name: str, words: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Return article and plural of a name, by its last word where the whole is unknown: Plastic bottles."""
    first, _, last = name.rpartition(" ")
    if known := words.get(name.casefold()):
        return known
    article, plural = words.get(last.casefold(), ("", ""))
    return (choose_article(name) if article else "", f"{first} {plural}") if plural else (_article(name), "")


def has_name(concept: LabelConcept) -> bool:
    """Return whether people would type the name of a label: one that a person wrote for it, or one from annotations
    that is neither a code nor a word for what has no label."""
    is_from_annotations = concept.key == concept.zh == concept.en
    return not is_from_annotations or _NO_NAME.fullmatch(concept.key.strip()) is None


def record_other_spellings(names: Iterable[str], ledger: Ledger) -> None:
    """Record the category names that are the same text as another one and count as that, if there are any."""
    distinct, kept, others = set(names), dict[str, str](), list[Rejection]()
    for name, text in sorted(find_joined_names(distinct).items(), key=lambda pair: (pair[0] != pair[1], pair)):
        if kept.setdefault(text, name) != name:
            points = describe_code_points(name, text)
            others.append(Rejection(name, "rejected", "other_spelling", related_item=text, detail=points))
    if others:
        accepted_count = len({join_spellings(name) for name in distinct})
        ledger.record_stage("spellings", "label", len(distinct), accepted_count, rejection_table(others))


def detect_name_language(tree: TagTree) -> str:
    """Return the language of most names of a tree from annotations, zh or en."""
    chinese, english = (len(list_names_of_other_languages(tree, language)) for language in ("en", "zh"))
    return "zh" if chinese > english else "en"


def list_names_of_other_languages(tree: TagTree, language: str) -> list[str]:
    """Return the names of a tree from annotations that are not in the language: for en those with a Chinese character;
    for zh English words, but not TV, LED or T恤."""
    names = [concept.key for concept in tree.concepts if not concept.kind]  # a person's name has one form
    if language == "zh":
        return [name for name in names if not has_chinese(name) and _ENGLISH_WORD.search(name)]
    return [name for name in names if has_chinese(name)]


def has_chinese(name: str) -> bool:
    """Return whether it has a Chinese character."""
    return bool(_CHINESE.search(name))


def _article(name: str) -> str:
    """Guess the article from the spelling: a plural, or a name in another script, has none."""
    plural = name.endswith("s") and not name.endswith(("ss", "us", "is"))
    return "" if plural or not name[:1].isascii() else choose_article(name)


def match_categories(
    categories: pd.DataFrame, tree: TagTree, file: str, names_of_other_versions: dict[str, set[str]]
) -> list[int]:
    """Return the label position of each category, by stripped casefolded name, in any spelling of the same text.

    Raises UserError for an unknown category; the error states if the file fits another version of the label set
    (`names_of_other_versions`) better.
    """
    positions = {join_spellings(label.key).casefold(): position for position, label in enumerate(tree.labels)}
    positions_found = [positions.get(join_spellings(str(name)).casefold(), -1) for name in categories["name"]]
    unknown = [str(name) for name, position in zip(categories["name"], positions_found, strict=True) if position < 0]
    if not unknown:
        return positions_found
    folded = {str(name).strip().casefold() for name in categories["name"]}
    for version, names in names_of_other_versions.items():
        # Publishers of one version differ by a few names, so the larger overlap decides.
        shared = len(folded & {name.strip().casefold() for name in names})
        if shared > len(positions_found) - len(unknown) and shared >= 0.8 * len(folded):
            raise UserError(
                "match labels",
                file,
                f"belongs to {version}: {len(unknown)} of its {len(positions_found)} categories, such as "
                f"{unknown[0]!r}, are not in this label table",
                "use the label table of that version, or set labels: from_annotations",
            )
    raise UserError(
        "match labels",
        file,
        f"{len(unknown)} of {len(positions_found)} categories are not in the label table, first {unknown[0]!r} "
        f"({suggest_choice(unknown[0], [label.key for label in tree.labels])})",
        "fix the names, or set labels: from_annotations",
    )


def _check_names(tree: TagTree, source: str) -> None:
    keys = Counter(join_spellings(concept.key).casefold() for concept in tree.concepts)
    for concept in tree.concepts:
        if not concept.key:
            raise _table_error(source, "a row has no name", "give it a name")
        if keys[join_spellings(concept.key).casefold()] > 1:
            raise _table_error(source, f"{concept.key!r} occurs twice", "keep one row")
    for language in LANGUAGES:
        owner: dict[str, str] = {}
        for concept in tree.concepts:
            name = concept.name(language)
            if not name or name != name.strip():
                raise _table_error(source, f"{concept.key!r} has no clean {language} name ({name!r})", "fill it in")
            text = join_spellings(name).casefold()
            if text in owner:
                reason = f"{owner[text]!r} and {concept.key!r} are both {name!r} in {language}"
                raise _table_error(source, reason, "use different names")
            owner[text] = concept.key
        _check_alike([concept.name(language) for concept in tree.concepts], source)
    _check_alike([concept.key for concept in tree.concepts], source)


def _check_alike(names: Iterable[str], source: str) -> None:
    """Raise UserError for two names that nobody can tell apart: they would become two queries."""
    if (alike := find_alike_names(names)) is not None:
        one, other = alike
        points = f"{describe_code_points(one, other)}; {describe_code_points(other, one)}"
        raise _table_error(
            source, f"{one!r} and {other!r} look the same ({points})", "write both with the same letters"
        )


def _check_parents(tree: TagTree, source: str) -> None:
    parent_of = {node.key: node.parent for node in tree.nodes}
    for concept in tree.concepts:
        seen = {concept.key}
        above = concept.parent
        while above:
            if above not in parent_of:
                choice = suggest_choice(above, list(parent_of) or ["a node"])
                raise _table_error(source, f"the parent {above!r} of {concept.key!r} is unknown", choice)
            if above in seen:
                raise _table_error(source, f"the tree has a cycle through {above!r}", "remove the cycle")
            seen.add(above)
            above = parent_of[above]


def _require_columns(frame: pd.DataFrame, columns: list[str], item: str) -> None:
    if missing := [column for column in columns if column not in frame.columns]:
        raise _table_error(item, f"has no column {missing[0]!r}", f"use the columns {', '.join(columns)}")
