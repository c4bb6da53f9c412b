"""Croissant 1.1: the files of the format `huggingface`, described by croissant.json (JSON-LD) with their digests.

It describes how the judgments were made with the vocabulary for responsible AI.

Vocabulary: https://docs.mlcommons.org/croissant/docs/croissant-spec.html and croissant-rai-spec.html; accepted by
mlcroissant 1.1.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from querytruth.backends.files.durable_files import file_sha256
from querytruth.formats.exporters import huggingface
from querytruth.formats.set_card import list_biases
from querytruth.sets.benchmark_set import canonical_json
from querytruth.sets.manifest import Manifest
from querytruth.sets.manifest_notes import describe_certificate
from querytruth.sets.set_files import StoredSet

_CONTEXT = json.loads(Path(__file__).with_name("croissant_context.json").read_text("utf-8"))
_KEYS = {"images": "image_id", "queries": "query_id"}
_TYPES = {"string": "sc:Text", "int8": "sc:Integer", "int16": "sc:Integer", "int32": "sc:Integer"}

_TYPES |= {"double": "sc:Float", "bool": "sc:Boolean"}

LIMITS = huggingface.LIMITS


def export(stored: StoredSet, out: Path) -> None:
    """Write the Parquet files and their description; leaves out the ledger only."""
    huggingface.export(stored, out)
    files = {name: sorted((out / name).glob("*.parquet")) for name in huggingface.nonempty_tables(stored)}
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": stored.manifest["name"],
        "description": stored.manifest["title"],
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "version": f"{stored.manifest['version']}.0.0",
        "distribution": [entry for name in files for entry in _files(out, name, files[name])],
        "recordSet": [_record_set(name, files) for name in files],
        **_describe_truth(stored.manifest),
    }
    if stored.manifest["licence"]:
        described["license"] = stored.manifest["licence"]
    (out / "croissant.json").write_bytes(canonical_json(described))


def _describe_truth(manifest: Manifest) -> dict[str, Any]:
    """Return how the set was made and judged, its certificates, and the uses it is not fit for."""
    certificate = manifest["notes"].get("certificate")
    judges = [f"{judge}: {count:,} judgments" for judge, count in manifest["counts"].get("by_judge", {}).items()]
    files = ", ".join(one["file"] for one in manifest["inputs"])
    limits = [*manifest["known_limitations"], *list_biases(manifest["kind"], manifest["counts"]["by_style"])]
    described = {
        "rai:dataCollection": f"{manifest['kind']} set, from {files or 'images'}",
        "rai:dataPreprocessingProtocol": [
            f"{stage['stage'].replace('_', ' ')}: {stage['accepted']:,} of {stage['entered']:,} kept"
            for stage in manifest["funnel"]
        ],
        "rai:dataAnnotationProtocol": [f"grade {grade}: {text}" for grade, text in sorted(manifest["grades"].items())],
        "rai:dataAnnotationPlatform": judges,
        "rai:dataAnnotationAnalysis": [describe_certificate(certificate)] if certificate else [],
        "rai:machineAnnotationTools": [f"{one['name']} {one['revision']}".strip() for one in manifest["models"]],
        "rai:dataLimitations": limits,
        "rai:dataUseCases": "evaluation of text-to-image search; not for training",
    }
    return {name: value for name, value in described.items() if value}


def _files(out: Path, name: str, files: list[Path]) -> list[dict[str, Any]]:
    """Describe the files of a table, and, where there are several, their file set."""
    listed: list[dict[str, Any]] = []
    for path in files:
        sha256, size = file_sha256(path)
        place = path.relative_to(out).as_posix()
        listed.append(
            {
                "@type": "cr:FileObject",
                "@id": place,
                "name": place,
                "contentUrl": place,
                "contentSize": f"{size} B",
                "encodingFormat": "application/x-parquet",
                "sha256": sha256,
            }
        )
    if len(files) > 1:
        listed.append(
            {
                "@type": "cr:FileSet",
                "@id": f"{name}-files",
                "name": f"{name}-files",
                "encodingFormat": "application/x-parquet",
                "includes": f"{name}/*.parquet",
            }
        )
    return listed


def _record_set(name: str, files: dict[str, list[Path]]) -> dict[str, Any]:
    first, several = files[name][0], len(files[name]) > 1
    source = {"fileSet": {"@id": f"{name}-files"}} if several else {"fileObject": {"@id": f"{name}/{first.name}"}}
    record_set: dict[str, Any] = {"@type": "cr:RecordSet", "@id": name, "name": name, "field": []}
    if name in _KEYS:
        record_set["key"] = {"@id": f"{name}/{_KEYS[name]}"}
    for column in pq.read_schema(first):
        field: dict[str, Any] = {
            "@type": "cr:Field",
            "@id": f"{name}/{column.name}",
            "name": column.name,
            "source": {**source, "extract": {"column": column.name}},
        }
        if column.name == "image":
            field["dataType"] = "sc:ImageObject"
            field["source"]["transform"] = {"jsonPath": "bytes"}
        elif column.name in ("labels", "fact_kinds"):
            field |= {"dataType": "sc:Text", "isArray": True, "arrayShape": "-1"}
        else:
            field["dataType"] = _TYPES[str(column.type)]
        for other, key in _KEYS.items():
            if column.name == key and name != other and other in files:
                field["references"] = {"field": {"@id": f"{other}/{key}"}}
        record_set["field"].append(field)
    return record_set
