"""The keys of a precision set's definition."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from builders.precision.label_files import list_shipped_tables
from builders.precision.tag_files import is_tag_file
from builders.precision.tag_tree import LANGUAGES
from querytruth import definitions
from querytruth.audit.definition import PairJudgeOptions
from querytruth.backends.files.option_paths import BaseFolder, PathRule, resolve_if_exists


class SearchableLabelOptions(definitions.StrictModel):
    """Which labels become queries. `count`: `any`: `min_images` images have the label, and it is prominent on one of
    them; `prominent`: it is prominent on `min_images` images. Prominent: a box larger than `area_ratio`."""

    area_ratio: float = Field(0.10, ge=0, lt=1)
    min_images: int = Field(10, ge=1)
    count: Literal["any", "prominent"] = "any"


_MIXES_OF_THE_ARTICLE = (1212, 889)  # pairs and triples; no larger mixes


class MixOptions(definitions.StrictModel):
    """Queries for several labels at once. `draws`: maximum of other labels sampled per seed, null: no maximum; `cap`:
    maximum of mixes per level, or a list of those of level 2, 3 …; `near_misses`: maximum of judgments with grade 0 per
    mix. Sampled mixes with neither draws nor cap have the seed article's numbers as cap."""

    levels: int = Field(3, ge=1, le=5)
    mode: Literal["sampled", "exhaustive"] = "sampled"
    draws: int | None = Field(None, ge=1)
    cap: Annotated[int, Field(ge=0)] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    min_images: int = Field(10, ge=1)
    near_misses: int = Field(100, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _cap_sampled_mixes(cls, data: Any) -> Any:
        is_sampled = isinstance(data, dict) and data.get("mode", "sampled") == "sampled"
        if is_sampled and data.get("draws") is None and data.get("cap") is None:
            return data | {"cap": list(_MIXES_OF_THE_ARTICLE)}
        return data

    @property
    def caps(self) -> list[int]:
        """Return the maximum of mixes of level 2, 3 …, the last of all further levels; empty: no maximum."""
        return [] if self.cap is None else self.cap if isinstance(self.cap, list) else [self.cap]


class BoxOptions(definitions.StrictModel):
    """Whether to count boxes of a crowd, and of a depiction or toy of the object (Objects365's isfake)."""

    crowd: bool = True
    fake: bool = True


class DetectionOptions(definitions.StrictModel):
    """A detector's boxes beside the annotations. `results`: files in COCO's results form, with the image and category
    ids of the annotation file; `at_least`: the lowest score of a box that proposes a judgment."""

    results: Annotated[list[Path], definitions.OneOrMore, Field(min_length=1)]
    at_least: float = Field(0.5, ge=0, le=1)


class TagOptions(definitions.StrictModel):
    """Tags of whole images (annotations in .csv, .tsv or .jsonl). `at_least`: the lowest score of a tag that counts; a
    tag without a score counts. `propose_from`: the lowest score of one that proposes a judgment, null: none does."""

    at_least: float = Field(0.5, ge=0, le=1)
    propose_from: float | None = Field(None, ge=0, le=1)


Once = AfterValidator(definitions.reject_repetition)


class FactOptions(definitions.StrictModel):
    """How a table of facts is read (annotations in .csv with image, kind and value). `complete`: the kinds of which an
    image has all tags: people where it has a face, dates and places of a level where it has one. `events`: the table of
    events; `pseudonyms`: a table of name and pseudonym; `hemisphere`: whose seasons count where coordinates are
    missing; `holidays`: countries, such as CN or US, whose holidays are tags."""

    complete: list[Literal["person", "date", "place"]] = Field(["person", "date", "place"])
    events: Path | None = None
    pseudonyms: Path | None = None
    hemisphere: Literal["north", "south"] = "north"
    holidays: Annotated[list[str], Once] = Field([])


class FamilyRuleOptions(definitions.StrictModel):
    """How families of queries are made. `cap`: maximum of questions per family, null: none; `large`, `small`: the share
    of the image that an object takes up at least, at most; `margin`: the gap between two objects of which one is
    beside or above the other, as a share of the image's width or height."""

    min_images: int = Field(10, ge=1)
    cap: int | None = Field(200, ge=0)
    large: float = Field(0.3, gt=0, le=1)
    small: float = Field(0.02, gt=0, lt=1)
    margin: float = Field(0.02, ge=0, lt=1)

    @model_validator(mode="after")
    def _leave_a_gap(self) -> "FamilyRuleOptions":
        if self.small >= self.large:
            raise ValueError("small must be less than large: sizes between the two belong to neither class")
        return self


class AttributeOptions(definitions.StrictModel):
    """Which attributes of boxes queries ask for, by their names or by their keys in an object. `only`: null, all;
    `allow`: those that are used although they look like notes of an annotation tool (occluded, truncated)."""

    only: list[str] | None = None
    allow: list[str] = Field([])
    exclude: list[str] = Field([])


class PhrasingOptions(definitions.StrictModel):
    """The chat model that rephrases a query and checks its phrasings. `count`: maximum of phrasings per query."""

    model: str = "qwen"
    options: definitions.ChatModelOptions = Field(default_factory=dict)
    count: int = Field(3, ge=1, le=10)
    price: definitions.PriceOptions | None = Field(None, exclude=True)


PHRASING_PROMPTS = ("phrasings", "phrasing_labels", "phrasing_question")


def _resolve_table(text: str, folder: BaseFolder) -> str:
    return text if text in list_shipped_tables() else resolve_if_exists(text, folder)


TableName = Annotated[str, PathRule(_resolve_table)]  # of a shipped table, or a path


class PrecisionDefinition(definitions.SetDefinition):
    """A precision set. `labels`: a shipped table (objects365, coco80, voc20), a folder with labels.csv and tree.csv,
    `from_annotations` or `from_supercategories`; `parents`: which nodes of the tree become queries."""

    kind: Literal["precision"] = "precision"
    annotations: Annotated[list[Path], definitions.OneOrMore, Field(min_length=1)]
    images: Path | None = None
    labels: TableName = "from_annotations"
    compatible: TableName | None = None
    boxes: BoxOptions = BoxOptions()
    detections: DetectionOptions | None = None
    judge: PairJudgeOptions | None = None  # is asked about what the detections propose
    tags: TagOptions | None = None  # of tags of whole images; null: as TagOptions has it
    facts: FactOptions = FactOptions()  # of tables of facts
    searchable: SearchableLabelOptions = SearchableLabelOptions()
    parents: bool = True
    near_duplicates: definitions.NearDuplicateOptions = definitions.NearDuplicateOptions()
    mixes: MixOptions = MixOptions()
    families: Annotated[list[Literal["count", "size", "spatial", "negation", "attribute", "people"]], Once] = Field([])
    family_rules: FamilyRuleOptions = FamilyRuleOptions()
    # whether the annotations mark each object of each label; by_image: as their lists of labels say (LVIS)
    exhaustive: bool | Literal["by_image"] = False
    # whether a box that lists attributes lists all of them, so that another object is no right answer
    exhaustive_attributes: bool = False
    attributes: AttributeOptions = AttributeOptions()
    texts: Annotated[list[Literal["word", "sentence", "llm"]], Once] = Field(["word", "sentence"], min_length=1)
    phrasings: PhrasingOptions | None = None  # of texts: llm; it and prompt_files are read there alone
    replies: definitions.Location | None = None  # of the model that words queries anew and of the judge; so is budget
    prompt_files: definitions.PromptFiles = Field(default_factory=dict)
    budget: definitions.BudgetOptions | None = Field(None, exclude=True)
    # null: those the labels have
    languages: Annotated[list[Literal["zh", "en"]], Once] | None = Field(None, min_length=1)
    grades: Literal["graded", "binary"] = "graded"
    render: definitions.RenderOptions | None = definitions.RenderOptions()

    @model_validator(mode="after")
    def _require_one_annotation_file(self) -> "PrecisionDefinition":
        if self.detections is not None and len(self.annotations) > 1:
            raise ValueError("detections need a single annotation file: the results refer to its ids")
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_in_tags(cls, data: Any) -> Any:
        given = data.get("annotations") if isinstance(data, dict) else None
        listed = given if isinstance(given, list) else [given]
        has_tags = any(is_tag_file(Path(one)) for one in listed if isinstance(one, str | Path))
        return {**data, "tags": {}} if has_tags and data.get("tags") is None else data

    @model_validator(mode="after")
    def _keep_to_what_tags_say(self) -> "PrecisionDefinition":
        if not self.has_tags:
            if self.tags is not None:
                raise ValueError("tags needs annotations that are tags of whole images (.csv, .tsv, .jsonl): remove it")
            return self
        if self.proposes_tags and (self.detections is not None or len(self.annotations) > 1):
            raise ValueError("tags.propose_from needs a single file of tags and no detections")
        if self.images is None:
            raise ValueError("tags of whole images need the folder of the images: set images")
        if {*self.families} - {"people"} or self.exhaustive == "by_image":
            raise ValueError(
                "families other than people and exhaustive: by_image need boxes, but tags of whole images have none: "
                "remove them"
            )
        if not self.boxes.crowd:
            raise ValueError("boxes.crowd: false excludes tags of whole images: set it to true")
        return self

    @model_validator(mode="after")
    def _require_exhaustive_annotations(self) -> "PrecisionDefinition":
        if self.exhaustive_attributes and "attribute" not in self.families:
            raise ValueError("exhaustive_attributes affects only the family attribute: add it to families")
        if self.exhaustive_attributes and not self.exhaustive:
            raise ValueError("exhaustive_attributes covers all objects of a label: set exhaustive, too")
        if self.needs_all_objects and not self.exhaustive:
            raise ValueError(
                "families need annotations that mark every object of every label: if no box means no object (COCO, "
                "VOC), set exhaustive: true; if images list their labels (LVIS), set exhaustive: by_image; otherwise "
                "remove all families except attribute"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_in_phrasings(cls, data: Any) -> Any:
        wants_phrasings = isinstance(data, dict) and "llm" in (data.get("texts") or ())
        return {**data, "phrasings": {}} if wants_phrasings and data.get("phrasings") is None else data

    @model_validator(mode="after")
    def _phrasings_are_wanted(self) -> "PrecisionDefinition":
        if self.has_phrasings:
            if not self.styles:
                raise ValueError("texts: llm rephrases other queries: add word or sentence")
            definitions.check_prompt_files(
                self.prompt_files, [f"{one}/{name}" for one in LANGUAGES for name in PHRASING_PROMPTS]
            )
            return self
        keys = ("phrasings", "prompt_files", *([] if self.judge else ["replies", "budget"]))
        if unused := [name for name in keys if getattr(self, name)]:
            raise ValueError(f"{unused[0]} has an effect only if a chat model phrases queries: add llm to texts")
        return self

    @model_validator(mode="after")
    def _judge_sees_what_is_proposed(self) -> "PrecisionDefinition":
        has_proposals = self.detections is not None or self.proposes_tags
        if self.judge is not None and not (has_proposals and self.images is not None and self.render is not None):
            raise ValueError(
                "a judge reviews what detections or tags.propose_from propose, on rendered images: set detections, "
                "images and render"
            )
        return self

    @property
    def has_tags(self) -> bool:
        """Return whether tags of whole images are among the annotations."""
        return any(is_tag_file(path) for path in self.annotations)

    @property
    def proposes_tags(self) -> bool:
        """Return whether tags of low scores propose judgments."""
        return self.tags is not None and self.tags.propose_from is not None

    @property
    def has_phrasings(self) -> bool:
        """Return whether a chat model words queries anew."""
        return "llm" in self.texts

    @property
    def styles(self) -> list[str]:
        """Return the styles that are written without a model."""
        return [style for style in self.texts if style != "llm"]

    @property
    def needs_all_objects(self) -> bool:
        """Return whether a family judges by missing boxes: all except people, and attribute, which then has no explicit
        negatives."""
        return bool(set(self.families) - {"attribute", "people"}) or self.exhaustive_attributes
