"""Records what every command prints, writes and decides, and compares two such records.

Kept while the code moves between rooms, and removed with the last move: a difference is intended and named in its
commit, or a fault.

    python tools/baseline.py record RECORD [--data DIR]   # with the querytruth of this environment; some minutes
    python tools/baseline.py compare BEFORE AFTER

A record is a folder: `index.json` has a digest per fact, and `texts/` each fact that is a text, with dates, durations
and places taken out, so that a difference can be read.
"""

import argparse
import csv
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETS = ("sample-captions", "sample-families", "sample-gallery", "sample-objects", "sample-phrasings", "sample-queries")
FORMATS = [
    "beir",
    "chinese_clip",
    "croissant",
    "csv",
    "huggingface",
    "karpathy",
    "label_studio",
    "mteb",
    "trec",
    "webdataset",
]
OBJECTS, CAPTIONS = "demo/datasets/sample-objects", "demo/datasets/sample-captions"
RESULTS = f"{CAPTIONS}/evaluations/v1"
COMMANDS = [  # that read the demo's sets
    *[f"{verb} demo/datasets/{name}" for name in SETS for verb in ("show", "verify", "lint", "history")],
    f"diff {OBJECTS} demo/datasets/sample-families",
    f"stability {OBJECTS} {OBJECTS}",
    f"shortcuts {OBJECTS}",
    f"compare {CAPTIONS} {RESULTS}/lexical {RESULTS}/random",
    f"leaderboard {CAPTIONS}",
    f"history {CAPTIONS}",
    f"plan-size {CAPTIONS} --difference 0.02 --metric ndcg@10 --pilot {RESULTS}/lexical {RESULTS}/random",
    f"gate {CAPTIONS} --baseline {RESULTS}/lexical --candidate {RESULTS}/random --metric ndcg@10 --margin 0.02",
    f"search {CAPTIONS} red --run {RESULTS}/lexical",
    f"evaluate {CAPTIONS} --run {RESULTS}/lexical --name again",
    f"overlap {OBJECTS} --against demo/album/images",
    "list --out demo/datasets",
    f"gc {OBJECTS} --dry-run",
    "doctor real-recall.yaml",
    "audit report demo/audited/sample-queries",
    "show nowhere",
    "build gallery nowhere.yaml",
    "export demo/datasets/sample-gallery mteb nowhere",
]
_DATES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|[+-]\d\d:\d\d)?"), "DATE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|images/s|MB/s)\b"), "TIME"),
    (re.compile(r'"chain": "[0-9a-f]{32}"'), '"chain": "…"'),
    (re.compile(r'("(?:seconds|elapsed|duration|latency)[a-z_]*": )[0-9.e-]+'), r"\1TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "LOOPBACK"),
]


def record(out: Path, data: Path) -> None:
    """Writes a record of the installed querytruth. `data`: the folder of real data; without it only the demo counts."""
    (out / "texts").mkdir(parents=True)
    facts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()

        def keep(name: str, text: str) -> None:
            text = text.replace(str(place), "PLACE").replace(str(ROOT), "ROOT").replace(str(data), "DATA")
            for pattern, instead in _DATES:
                text = pattern.sub(instead, text)
            facts[name] = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
            (out / "texts" / re.sub(r"[^\w.-]+", "_", name)[:200]).write_text(text, "utf-8", "replace")

        keep("names of qt", "\n".join(public_names()))
        for words in list_commands():
            keep(f"help {' '.join(words)}", run([*words, "--help"], place)[1])
        keep("demo", drop_progress(run(["demo", "--out", "demo"], place)[1]))
        for name, files in ((one, place / "demo" / "datasets" / one) for one in SETS):
            keep(f"digest {name}", digests_of(files))
        if data.is_dir():
            build_real_sets(data, place, keep)
        for command in COMMANDS:
            for form in ([], ["--json"]):
                status, printed = run([*command.split(), *form], place)
                keep(f"{command} {' '.join(form)}".strip(), f"exit {status}\n{printed}")
        for page in sorted(place.rglob("*.html")):
            keep(f"page {page.relative_to(place)}", page.read_text("utf-8"))
        for result in sorted(place.glob("demo/datasets/*/evaluations/v1/*/result.json")):
            keep(f"result {result.relative_to(place)}", result.read_text("utf-8"))
        for name in ("sample-objects", "sample-captions"):
            for format_ in FORMATS:
                keep(f"export {name} {format_}", export(name, format_, place))
        keep("decisions", review(place, keep))
    (out / "index.json").write_text(json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False), "utf-8")


def compare(before: Path, after: Path) -> int:
    """Prints every fact that differs, and the first lines of how; returns how many."""
    old, new = (json.loads((folder / "index.json").read_text("utf-8")) for folder in (before, after))
    differing = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    for name in differing:
        print(f"== {name}" + (": is new" if name not in old else ": is gone" if name not in new else ""))
        file = re.sub(r"[^\w.-]+", "_", name)[:200]
        texts = [folder / "texts" / file for folder in (before, after)]
        if all(text.is_file() for text in texts):
            lines = [text.read_text("utf-8").splitlines() for text in texts]
            for line in list(difflib.unified_diff(*lines, lineterm="", n=0))[2:14]:
                print(f"   {line[:240]}")
    print(f"{len(differing)} of {len({*old, *new})} facts differ")
    return len(differing)


def run(words: list[str], place: Path) -> tuple[int, str]:
    """Returns exit status and output of a command as it is typed in the folder `place`."""
    environment = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1", "PREFECT_HOME": str(place / ".prefect")}
    command = [sys.executable, "-m", "querytruth", *words]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + "\n--- errors\n" + drop_progress(done.stderr)


def drop_progress(text: str) -> str:
    """Leaves out the lines of bars and of others' loggers, which depend on the time."""
    return "\n".join(line for line in text.splitlines() if not re.search(r"━|\d%|\d\d:\d\d:\d\d\.\d", line))


def public_names() -> list[str]:
    import querytruth

    return [f"{name} {callable(getattr(querytruth, name))}" for name in sorted(querytruth.__all__)]


def list_commands() -> Iterator[list[str]]:
    """Yields the words of each command, by what the help of each group lists."""

    def below(words: list[str]) -> Iterator[list[str]]:
        yield words
        printed = run([*words, "--help"], ROOT)[1]
        if re.search(r"Usage:.*COMMAND", printed):
            part = printed.partition("Commands")[2]
            for name in re.findall(r"(?m)^│ ([a-z][a-z-]+)\s{2,}", part):
                yield from below([*words, name])

    yield from below([])


def digests_of(folder: Path) -> str:
    """Returns version, content digest and digest of each file of the versions of a set."""
    lines = []
    for manifest in sorted(folder.glob("v*/manifest.json")):
        content = json.loads(manifest.read_text("utf-8"))
        lines.append(f"{manifest.parent.name} {content['content_digest']}")
        lines += [f"  {file['path']} {file['sha256']}" for file in content["files"] if file["path"] != "README.md"]
    return "\n".join(lines)


def export(name: str, format_: str, place: Path) -> str:
    """Returns what `export` printed, and the digest of each written file."""
    to = place / "exports" / name / format_
    words = ["export", f"demo/datasets/{name}", format_, str(to)]
    lossless, printed = run(words, place)
    status, more = run([*words, "--allow-loss"], place) if lossless else (0, "")
    files = [path for path in sorted(to.rglob("*")) if path.is_file()]
    lines = [f"{path.relative_to(to)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]
    return f"exit {lossless} {status}\n{printed}{more}\n" + "\n".join(lines)


def review(place: Path, keep: Callable[[str, str], None]) -> str:
    """Answers the CSV files of a set as a person would, applies them, and returns the log of the decisions."""
    export_words = ["review", "export-csv", OBJECTS, "--to", "review", "--judgments", "40"]
    keep("review export-csv", run(export_words, place)[1])
    for file, answers in (("queries.csv", ("keep", "drop", "edit", "")), ("judgments.csv", ("keep", "drop", "", "2"))):
        path = place / "review" / file
        with path.open(encoding="utf-8-sig", newline="") as opened:
            mark = next(opened)
            rows = list(csv.DictReader(opened))
        for number, row in enumerate(rows[:40]):
            row["decision"] = answers[number % 4]
            if row["decision"] == "edit":
                row["new_text"] = f"{row['text']} again"
        with path.open("w", encoding="utf-8-sig", newline="") as opened:
            opened.write(mark)
            writer = csv.DictWriter(opened, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        words = ["review", "import-csv", OBJECTS, str(path), "--reviewer", "ann"]
        keep(f"review import-csv {file}", run(words, place)[1])
    keep("apply", run(["apply", OBJECTS], place)[1])
    keep("digest applied", digests_of(place / OBJECTS))
    return (place / OBJECTS / "decisions.jsonl").read_text("utf-8")


def build_real_sets(data: Path, place: Path, keep: Callable[[str, str], None]) -> None:
    """Builds a set of each kind of real data, and keeps output and digests."""
    coco = data / "coco_tiny"
    with (place / "recall.csv").open("w", encoding="utf-8", newline="") as file:
        captions = json.loads((coco / "annotations" / "captions_val2017.json").read_text("utf-8"))
        names = {image["id"]: image["file_name"] for image in captions["images"]}
        writer = csv.writer(file)
        writer.writerow(["file_name", "language", "caption"])
        writer.writerows([names[one["image_id"]], "en", one["caption"].strip()] for one in captions["annotations"])
    definitions = {
        "gallery": {"images": str(data / "near_duplicates")},
        "recall": {
            "images": str(coco / "val2017"),
            "captions": {"model": "captions_file", "options": {"path": "recall.csv"}, "prompt": "en/caption"},
            "ambiguity": {"policy": "merge", "text_embedder": "char_ngrams"},
        },
        "precision": {
            "images": str(coco / "val2017"),
            "annotations": str(coco / "annotations" / "instances_val2017.json"),
            "exhaustive": True,
            **{key: {"min_images": 3} for key in ("searchable", "mixes", "family_rules")},
            "families": ["count", "size", "spatial", "negation"],
        },
    }
    for kind, keys in definitions.items():
        (place / f"real-{kind}.yaml").write_text(json.dumps({"name": f"real-{kind}", "kind": kind, **keys}), "utf-8")
        status, printed = run(["build", kind, f"real-{kind}.yaml", "--in-process", "--out", "datasets"], place)
        keep(f"real {kind}", f"exit {status}\n{printed}")
        keep(f"digest real {kind}", digests_of(place / "datasets" / f"real-{kind}"))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.out, given.data.resolve())
    else:
        sys.exit(bool(compare(given.before, given.after)))


if __name__ == "__main__":
    main()
