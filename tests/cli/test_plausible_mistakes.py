"""Mistakes that people make: each is one line with the item, the reason and the next step, and an exit status."""

import sys
from pathlib import Path

import pytest

from querytruth.cli import app
from tests.cli.conftest import Run
from tests.images import make_jpeg
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

ONE = ["--out", "sets", "--no-page"]
GALLERY = "name: g\nkind: gallery\nimages: photos\n"
RECALL = (
    "name: r\nkind: recall\nimages: photos\nambiguity: {text_embedder: char_ngrams}\ncaptions: {model: captions_file, "
)
BOXES = (
    '{"images": [{"id": 1, "file_name": "one.jpg", "width": 9, "height": 9}], '
    '"categories": [{"id": 1, "name": "dog"}], '
    '"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}]}'
)
PRECISION = "name: p\nkind: precision\nannotations: boxes.json\nlabels: from_annotations\n"
SIDES = ["--candidate", "right.trec", "--baseline"]
GATE = ["gate", "small", *SIDES]
FILES = {
    "gallery.yaml": GALLERY,
    "tab.yaml": "name: g\n\tkind: gallery\n",
    "empty.yaml": "",
    "kind.yaml": "name: g\nkind: galery\nimages: photos\n",
    "key.yaml": GALLERY + "filtr: {}\n",
    "nowhere.yaml": "name: g\nkind: gallery\nimages: photoes\n",
    "bare.yaml": "name: g\nkind: gallery\nimages: bare\n",
    "web.yaml": "name: g\nkind: gallery\nimages: https://example.org/photos\n",
    "password.yaml": "name: g\nkind: gallery\nimages: ftp://me:secret@host/photos\n",
    "image.yaml": "name: g\nkind: gallery\nimages: photos/one.jpg\n",
    "recall.yaml": RECALL + "options: {path: captions.csv}}\n",
    "captions_gone.yaml": RECALL + "options: {path: gone.csv}}\n",
    "precision.yaml": "name: p\nkind: precision\nannotations: gone.json\nlabels: coco80\n",
    "broken.json": "{",
    "precision_broken.yaml": "name: p\nkind: precision\nannotations: broken.json\nlabels: coco80\n",
    "captions.csv": "shown,text\none.jpg,a dog\n",
    "other.trec": "q_of_another_set Q0 image 1 0.5 tag\n",
    "columns.csv": "colour,picture,weight\nred,i,1\n",
    "run.json": '{"q": 3}',
    "page.trec": "<!doctype html><title>404</title>",
    "unknown_image.trec": f"{query_id_of('dog')} Q0 dog.jpg 1 0.5 tag\n",
    "qrels.txt": "q 0 image much\n",
    "right.trec": f"{query_id_of('dog')} Q0 {image_id_of('dog')} 1 0.5 tag\n",
    "no_query.yaml": "system: http\nurl: http://127.0.0.1:9/search\n",
    "typo.yaml": "system: htp\nurl: http://127.0.0.1:9/search?q={query}\n",
    "boxes.json": BOXES,
    "budget.yaml": RECALL + "options: {path: captions.csv}}\nbudget: {calls: many}\n",
    "families.yaml": PRECISION + "families: [count]\n",
    "family.yaml": PRECISION + "families: [counts]\nexhaustive: true\n",
    "detections.yaml": PRECISION + "detections: {results: [gone.json]}\n",
}
MISTAKES = [
    (["frobnicate"], "see querytruth --help"),
    (["--versoin"], "did you mean '--version'"),
    (["build", "recal"], "did you mean 'recall'"),
    (["build", "photos"], "build gallery --set images=photos"),
    (["gate"], "run querytruth gate [SET] --baseline … --candidate …"),
    (["import", "beir", "photos"], "run querytruth import FORMAT SOURCE OUT"),
    (["evaluate", "small", "--depth", "3"], "see querytruth evaluate --help"),
    (["show", "smal", "--out", "sets"], "smal"),
    (["show", "small/v9", "--out", "sets"], "small/v9"),
    (["show", "small", "--out", "elsewhere"], "small"),
    (["verify", "gone", "--out", "sets"], "gone"),
    (["lint", "gone", "--out", "sets"], "gone"),
    (["diff", "small/v1", "small/v2", "--out", "sets"], "small/v2"),
    (["rebuild", "small", "--out", "sets"], "--check"),
    (["gc", "gone", "--out", "sets"], "gone"),
    (["list", "--out", "elsewhere"], "elsewhere"),
    (["list", "--out", "photos/one.jpg"], "one.jpg"),
    (["search", "gone", "dog", "--run", "run.json", "--out", "sets"], "gone"),
    (["search", "small", "a dog, wet", "--run", "other.trec", "--out", "sets"], "other.trec"),
    (["search", "small", "a dog, wet", "--run", "gone.trec", "--out", "sets"], "gone.trec"),
    (["search", "small", "a dog, wet", "--model", "photoes", "--out", "sets"], "photoes"),
    (["search", "small", "a dog, wet", "--run", "other.trec", "--ids", "filename", "--out", "sets"], "file_name"),
    (["init", "galery"], "did you mean 'gallery'"),
    (["init", "gallery", "--out", "gallery.yaml"], "already exists"),
    (["init", "gallery", "--out", "no/such/folder/g.yaml"], "g.yaml"),
    (["init", "precision", "--out", "new.yaml", "--annotations", "broken.json"], "broken.json"),
    (["init", "precision", "--out", "new.yaml", "--annotations", "gone.json"], "gone.json"),
    *[
        (["build", "gallery", f"{name}.yaml", "--plan"], item)
        for name, item in {
            "empty": "empty.yaml",
            "kind": "galery",
            "nowhere": "photoes",
            "bare": "bare",
            "web": "https://example.org/photos",
            "password": "contains a user or password",
            "image": "one.jpg",
            "recall": "recall",
        }.items()
    ],
    (["build", "gallery", "gallery.yaml", "--plan", "--set", "near_duplicates.distance=70"], "distance"),
    (["build", "gallery", "gallery.yaml", "--plan", "--set", "render.mode=stretch"], "mode"),
    (["build", "gallery", "photos", "--plan"], "photos"),
    (["build", "gallery", "photos/one.jpg", "--plan"], "one.jpg"),
    (["build", "recall", "captions_gone.yaml", "--plan"], "gone.csv"),
    (["build", "recall", "recall.yaml", "--plan"], "captions.csv"),
    (["build", "recall", "recall.yaml", "--plan", "--set", "captions.model=gpt"], "gpt"),
    (["build", "recall", "recall.yaml", "--plan", "--set", "captions.prompt=fr/caption"], "fr/caption"),
    (["build", "precision", "precision.yaml", "--plan"], "gone.json"),
    (["build", "precision", "precision_broken.yaml", "--plan"], "broken.json"),
    ([*GATE, "gone.trec", "--metric", "hit@1", "--margin", "0.01", "--out", "sets"], "gone.trec"),
    (["gate", "gone", *SIDES, "other.trec", "--metric", "hit@1", "--margin", "0.01", "--out", "sets"], "gone"),
    ([*GATE, "right.trec", "--metric", "hit@one", "--margin", "0.01", "--out", "sets"], "hit@one"),
    ([*GATE, "right.trec", "--metric", "hit@1", "--margin", "1.5", "--out", "sets"], "1.5"),
    ([*GATE, "right.trec", "--metric", "hit@1", "--margin", "0.01", "--slice", "lang=en", "--out", "sets"], "lang"),
    (["plan-size", "gone", "--difference", "0.02", "--discordance", "0.2", "--out", "sets"], "gone"),
    (["notice", "gone", "--out", "sets"], "gone"),
    (["judge", "check", "small", "--judge", "qwn", "--out", "sets"], "qwn"),
    (["audit", "plan", "small", "--run", "right.trec", "--judge", "qwn", "--depth", "1", "--out", "sets"], "qwn"),
    (["audit", "plan", "gone.yaml"], "gone.yaml"),
    (["audit", "plan", "gallery.yaml"], "gallery"),
    (["search", "--trial", "--system", "no_query.yaml", "a dog"], "sends no query"),
    (["search", "--trial", "--system", "typo.yaml", "a dog"], "did you mean"),
    (["evaluate", "small", "--system", "no_query.yaml", *ONE], "sends no query"),
    (["labels", "translate", "gone.json", "--language", "zh", "--model", "qwn"], "gone.json"),
    (["labels", "translate", "boxes.json", "--language", "zh", "--model", "qwn"], "qwn"),
    (["labels", "accept", "gone.csv", "boxes.json", "--to", "labels"], "gone.csv"),
    (["labels", "accept", "columns.csv", "boxes.json", "--to", "labels"], "columns.csv"),
    (["replies", "refresh", "gone.yaml", "--model", "qwen"], "gone.yaml"),
    (["build", "recall", "budget.yaml"], "budget"),
    (["build", "precision", "families.yaml"], "exhaustive"),
    (["build", "precision", "family.yaml"], "counts"),
    (["build", "precision", "detections.yaml"], "gone.json"),
    (["doctor", "gone.yaml"], "gone.yaml"),
    (["doctor", "key.yaml"], "filtr"),
    (["evaluate", "gone", "--baseline", "random", *ONE], "gone"),
    (["evaluate", "small", "--baseline", "randm", *ONE], "did you mean 'random'"),
    (["evaluate", "small", "--baseline", "random", "--index", "faiss", *ONE], "faiss"),
    (["evaluate", "small", "--run", "gone.trec", *ONE], "gone.trec"),
    (["evaluate", "small", "--run", "page.trec", *ONE], "web page"),
    (["evaluate", "small", "--run", "unknown_image.trec", "--ids", "name", *ONE], "name"),
    (["evaluate", "--qrels", "qrels.txt", "--baseline", "oracle", "--no-page"], "much"),
    (["evaluate", "--qrels", "gone.txt", "--baseline", "oracle", "--no-page"], "gone.txt"),
    (["evaluate", "small", "--vectors", "bare", *ONE], "bare"),
    (["export", "small", "cocoo", "exported", "--out", "sets"], "cocoo"),
    (["export", "gone", "trec", "exported", "--out", "sets"], "gone"),
    (["compare", "small", "gone_a", "gone_b", "--out", "sets"], "gone_a"),
    (["search", "--trial", "--system", "gone.yaml", "a dog"], "gone.yaml"),
    (["search", "--trial", "--system", "gallery.yaml", "a dog"], "gallery"),
    (["search", "--trial", "--system", "tab.yaml", "a dog"], "tab.yaml"),
    (["search", "--trial", "--system", "empty.yaml", "a dog"], "empty.yaml"),
    (["overlap", "gone", "--against", "photos", "--out", "sets"], "gone"),
    (["overlap", "small", "--against", "photoes", "--out", "sets"], "photoes"),
    (["leaderboard", "gone", "--out", "sets"], "gone"),
    (["audit", "report", "small", "--out", "sets"], "audit"),
    (["audit", "plan", "gone", "--run", "other.trec", "--out", "sets"], "gone"),
    (["audit", "plan", "small", "--run", "gone.trec", "--out", "sets"], "gone.trec"),
    (["review", "export-csv", "--audit", "audit", "small", "--out", "sets"], "audit"),
    (["apply", "gone", "--out", "sets"], "gone"),
    (["apply", "small/v7", "--out", "sets"], "small/v7"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a published set, photos, and files with a mistake each."""
    folder = tmp_path_factory.mktemp("mistakes")
    publish_small_set(folder, small_tables())
    (folder / "bare").mkdir()
    (folder / "photos").mkdir()
    (folder / "photos" / "one.jpg").write_bytes(make_jpeg())
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(("words", "item"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
@pytest.mark.thorough
def test_a_mistake_is_one_line(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    item: str,
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "argv", ["querytruth", *words])
    with pytest.raises(SystemExit) as stop:
        app.main()
    printed = capsys.readouterr().err
    assert stop.value.code in (1, 2), printed
    lines = [line for line in printed.splitlines() if line.startswith("error ")]
    assert len(lines) == 1 and "Next: " in lines[0] and len(lines[0]) <= 300 and "Traceback" not in printed, printed
    assert item in lines[0]


NEXT_STEPS = [
    (["verify", "small/v9", "--out", "sets"], "the newest version is v1. Next: choose from v1"),
    (
        ["evaluate", "small", *ONE, "--run", "no_query.yaml"],
        "describes a search service, not a run. Next: use --system no_query.yaml",
    ),
    (
        ["evaluate", "small", *ONE, "--run", "unknown_image.trec"],
        "Next: use image ids of the set (such as holiday/cat 1.jpg), or",
    ),
    (
        ["build", "photos"],
        "querytruth build. Next: choose from gallery, recall, precision, generated, queries; for a folder, run: ",
    ),
    (["import", "coco", "boxes.json", "taken"], "did you mean 'coco_captions' or 'coco_cn'?"),
]


@pytest.fixture
def there(place: Path, run: Run) -> Run:
    """Commands that are given in that folder."""
    run.patch.chdir(place)
    return run


@pytest.mark.parametrize(("words", "said"), NEXT_STEPS, ids=[" ".join(words) for words, _ in NEXT_STEPS])
def test_a_mistake_is_answered_with_what_was_meant(there: Run, words: list[str], said: str) -> None:
    assert said in there.error(*words, code=2 if words[0] == "build" else 1)


def test_a_definition_of_images_that_are_not_there_yet_says_so(place: Path, run: Run) -> None:
    for images in ("fotos", str(place / "photos")):
        _, told = run("init", "gallery", "--images", images, "--out", f"{Path(images).name}.yaml")
        assert ("does not exist yet" in told) == (images == "fotos")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["search", "small", "dog", "--trial", "--system", "s.yaml", "--page-language", "zh"],
            "has no effect with search --trial",
        ),
        (["search", "small", "dog", "--trial", "--model", "clip"], "needs a search service"),
        (
            ["objects", "g.yaml", "--health", "--offline"],
            "--offline (command line): has no effect with objects --health",
        ),
        (
            ["topics", "g.yaml", "--beside", "h.yaml"],
            "--beside (command line): has no effect with topics without --health",
        ),
        (
            ["review", "export-csv", "small", "--audit", "a", "--judgments", "5", "--out", "sets"],
            "has no effect on the sample",
        ),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(there: Run, words: list[str], said: str) -> None:
    assert said in there.error(*words, code=2)
