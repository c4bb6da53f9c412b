"""The guards of stored data, each taken out: an fsync, the order of two writes, a check of a digest."""

from typing import NamedTuple

PUBLISHING, DURABLE = "querytruth/sets/set_publishing.py", "querytruth/backends/files/durable_files.py"
APPEND, PAGE_STORE = "querytruth/backends/files/durable_files.py", "querytruth/backends/web/page_store.py"
AUDITS, SET_FILES = "querytruth/audit/audit_files.py", "querytruth/sets/set_files.py"
TABLES = "querytruth/backends/files/parquet_files.py"
CRASHES, SOURCES = "crashes/test_crashes.py", "builders/gallery/test_render_steps.py"
PUBLISH, LOG = f"{CRASHES}::whenever and publish", f"{CRASHES}::whenever and decisions"
PAGES = f"{CRASHES}::whenever and pages"
AUDIT = f"{CRASHES}::whenever and audits"
UPLOAD, OBJECT_FAULTS = "querytruth/sets/bucket_versions.py", "sets/test_bucket_reading.py"
UPLOADS = "sets/test_bucket_versions.py"
BUCKET, OBJECTS = "backends/models/test_reply_store.py", "querytruth/backends/models/reply_objects.py"
BUCKET_FAULTS, BUCKETS = "backends/models/test_object_store.py", "querytruth/backends/files/bucket.py"
STORE, REPLY_STORE = "querytruth/backends/files/object_store.py", "querytruth/backends/models/reply_store.py"
PUT_NEW = "new = self._objects.put_new({answer_name(place): data[place] for place in lasting})"
ANSWERED = "new = {answer_name(place) for place in lasting}"
PUT = f"self._objects.put({{answer_name(place): data[place] for place in lasting}}); {ANSWERED}"
BYTES_FIRST = "backends/files/test_durable_files.py::bytes_are_waited_for"


class Mutant(NamedTuple):
    """A text of a file and what stands in its place; and the test that fails then: a file in tests/, and a part of the
    names of its tests."""

    guard: str
    file: str
    text: str
    instead: str
    fails: str


WRITE = 'write(staging, version, read_manifest(folder / f"v{newest}") if newest is not None else None)\n'
RENAME = 'is_in_place = _rename_exclusively(staging, folder / f"v{version}")\n'
LOG_LINES = 'write_durably(handle, "\\r".join(lines).encode())\n        _write_durably(handle, b"\\n")'
SYNC_FILE = "                os.fsync(file.fileno())\n"

MUTANTS = [
    Mutant("fsync of a version's file", PUBLISHING, "        os.fsync(file.fileno())\n", "", PUBLISH),
    Mutant("fsync of a version's folders", PUBLISHING, "durable_files.sync_folder(Path(directory))", "pass", PUBLISH),
    Mutant(
        "fsync of a version's name",
        PUBLISHING,
        "    durable_files.sync_folder(folder)\n            return",
        "    return",
        PUBLISH,
    ),
    Mutant(
        "fsync of a fetched version's file",
        PUBLISHING,
        "                durable_files.sync_file(place)\n",
        "",
        f"{CRASHES}::whenever and fetch",
    ),
    Mutant(
        "fsync of the name latest",
        PUBLISHING,
        "encode())\n        durable_files.sync_folder(folder)",
        "encode())",
        PUBLISH,
    ),
    Mutant("fsync of a replaced file", DURABLE, SYNC_FILE, "", BYTES_FIRST),
    Mutant("fsync of a new folder", DURABLE, "sync_folder(one.parent)", "pass", PUBLISH),
    Mutant(
        "fsync of every folder", DURABLE, "    try:\n        os.fsync(handle)\n", "    try:\n        pass\n", PUBLISH
    ),
    Mutant(
        "fsync of a copied image",
        DURABLE,
        "        sync_file(target)\n",
        "",
        "backends/files/test_durable_files.py::copied",
    ),
    Mutant("fsync of a log's lines", APPEND, ":]\n    os.fsync(handle)\n", ":]\n", LOG),
    Mutant("fsync of a log's name", APPEND, "sync_folder(path.parent)", "pass", LOG),
    Mutant("fsync of a page", PAGE_STORE, "os.fsync(body.file.fileno())", "pass", PAGES),
    Mutant("fsync of a page's name", PAGE_STORE, "                sync_folder(folder)", "                pass", PAGES),
    Mutant(
        "fsync of the rows of pages",
        STORE,
        "synchronous=FULL",
        "synchronous=OFF",
        PAGES,
    ),
    Mutant("condition of a manifest", BUCKETS, '"create"', '"overwrite"', f"{OBJECT_FAULTS}::one_wins"),
    Mutant(
        "second look for the objects", UPLOAD, "if missing else []:", "if False else []:", f"{OBJECT_FAULTS}::confirmed"
    ),
    Mutant(
        "digest of a sent file",
        UPLOAD,
        "file_sha256(source) != (file.sha256, file.size)",
        "False",
        f"{UPLOADS}::damaged_file",
    ),
    Mutant(
        "digest of a fetched object",
        BUCKETS,
        "is_there and digest.hexdigest() == sha256",
        "is_there",
        f"{UPLOADS}::changed_object",
    ),
    Mutant("condition of a replaced object", BUCKETS, '{"e_tag": tag}', '"overwrite"', f"{BUCKET}::between"),
    Mutant("condition of a reply", REPLY_STORE, PUT_NEW, PUT, f"{BUCKET}::gives_way"),
    Mutant("a confirmed reply", REPLY_STORE, PUT_NEW, ANSWERED, f"{BUCKET_FAULTS}::killed_build_leaves"),
    Mutant(
        "a reply alone is cached",
        REPLY_STORE,
        ' if one.kind == "reply"',
        "",
        f"{BUCKET}::gives_way",
    ),
    Mutant("digest of a reply", OBJECTS, "checksum != digest(rest).encode()", "False", f"{BUCKET_FAULTS}::believed"),
    Mutant("key in a reply", OBJECTS, "if answer.place != place:", "if False:", f"{BUCKET_FAULTS}::believed"),
    Mutant(
        "digest of a pack",
        OBJECTS,
        "digest(data) != url.rpartition",
        "not url.rpartition",
        f"{BUCKET_FAULTS}::an_index",
    ),
    Mutant("check of conditions", REPLY_STORE, " self._check_conditions()\n", " pass\n", f"{BUCKET_FAULTS}::ignores"),
    Mutant("fsync of an audit's folder", AUDITS, "            durable_files.sync_folder(staging)\n", "", AUDIT),
    Mutant("fsync of an audit's name", AUDITS, "            durable_files.sync_folder(folder.parent)\n", "", AUDIT),
    Mutant(
        "fsync of decoded images",
        "querytruth/backends/models/vector_store.py",
        "os.fsync(file.fileno())",
        "pass",
        "backends/models/test_vector_store.py::waited_for",
    ),
    Mutant(
        "a version's files before its name",
        PUBLISHING,
        WRITE + " " * 12 + RENAME,
        RENAME + " " * 12 + WRITE.replace("staging", 'folder / f"v{version}"'),
        PUBLISH,
    ),
    Mutant(
        "a file's bytes before its name",
        DURABLE,
        SYNC_FILE + "        temporary.replace(path)\n",
        "                temporary.replace(path)\n" + SYNC_FILE,
        BYTES_FIRST,
    ),
    Mutant(
        "a log's lines before their end",
        APPEND,
        LOG_LINES,
        'write_durably(handle, "\\r".join(lines).encode() + b"\\n")',
        LOG,
    ),
    Mutant(
        "an audit's files before its name",
        AUDITS,
        "            durable_files.sync_folder(staging)\n            staging.rename(folder)\n",
        "            staging.rename(folder)\n            durable_files.sync_folder(folder)\n",
        AUDIT,
    ),
    Mutant(
        "digest of a manifest",
        "querytruth/sets/manifest.py",
        "if not is_undamaged_manifest(data)",
        "if False",
        "sets/test_manifest.py::",
    ),
    Mutant(
        "digest of a table",
        TABLES,
        "if digest != sha256:",
        "if False:",
        "flows/test_carried_damage.py::flipped_bit and few",
    ),
    Mutant(
        "digest of a linked image",
        PUBLISHING,
        "if intact is not None and sha256",
        "if False and sha256",
        SOURCES + "::damaged_rendering",
    ),
    Mutant(
        "digest of an image in a pack",
        "querytruth/sets/kept_work.py",
        "hashlib.sha256(data).hexdigest() == image.sha256 and",
        "True and",
        "flows/test_kept_work.py::damaged_in_the_bucket",
    ),
    Mutant(
        "form of an image in a pack",
        "querytruth/sets/kept_work.py",
        "and _is_rendering(data, size, mode)",
        "and True",
        "flows/test_kept_work.py::hostile_pack",
    ),
    Mutant(
        "digest of a rendered image",
        "builders/gallery/render_steps.py",
        "bool(digests) and file_sha256(file)[0] in digests",
        "bool(digests) and file.is_file()",
        SOURCES + "::goes_bad",
    ),
    Mutant(
        "digest of a source",
        "querytruth/backends/images/rendering.py",
        "if sha256 is not None and not",
        "if False and not",
        "backends/images/test_rendering.py::changed_since",
    ),
    Mutant(
        "digest of an image to be shown",
        "builders/gallery/render_steps.py",
        "if intact is not None and digest",
        "if False and digest",
        SOURCES + "::no_model",
    ),
    Mutant(
        "digest of a source to be shown",
        "builders/gallery/render_steps.py",
        "if folder is None and isinstance",
        "if False and isinstance",
        SOURCES + "::no_model",
    ),
    Mutant(
        "digest of a question's image",
        "querytruth/backends/models/request_images.py",
        "if hashlib.sha256(data).hexdigest() != image.sha256",
        "if False",
        "backends/models/test_openai_compatible.py::not_the_one",
    ),
    Mutant(
        "digest of an exported image",
        "querytruth/formats/set_images.py",
        "if hashlib.sha256(data).hexdigest() != sha256",
        "if False",
        "formats/exporters/test_exporters.py::damaged_image",
    ),
    Mutant(
        "digest of an exported source",
        "querytruth/formats/set_images.py",
        "if isinstance(sha256, str) and hashlib",
        "if False and hashlib",
        "formats/exporters/test_exporters.py::by_reference",
    ),
    Mutant(
        "digest in verify: manifest",
        SET_FILES,
        "if not is_undamaged_manifest(raw)",
        "if False",
        "sets/test_set_files.py::manifest_in_order",
    ),
    Mutant(
        "digest in verify: files",
        SET_FILES,
        'return "" if sha256 == listed["sha256"] else',
        'return "" if True else',
        "sets/test_set_files.py::thirty_flipped_bits",
    ),
    Mutant(
        "digest in verify: content",
        SET_FILES,
        "if not damaged and (digest :=",
        "if False and (digest :=",
        "sets/test_set_files.py::swapped_table",
    ),
    Mutant(
        "digest of a page",
        PAGE_STORE,
        "return file_sha256(self.body_path(one.sha256))[0] == one.sha256",
        "return self.body_path(one.sha256).is_file()",
        "backends/web/test_page_store.py::not_what_it_was",
    ),
    Mutant(
        "chain of a log",
        "querytruth/sets/decision_log.py",
        "if chain != _link(",
        "if False and chain != _link(",
        "sets/test_decision_log.py::flipped_bit",
    ),
    Mutant(
        "digest of a stage's table",
        "querytruth/backends/files/parquet_files.py",
        "if pages < 0 or data[pages:footer]",
        "if pages < 0 or False and data[pages:footer]",
        "backends/files/test_parquet_files.py::damage",
    ),
    Mutant(
        "digest of a checkpoint",
        "querytruth/dual_encoder/checkpoints.py",
        'if digest != description["sha256"][part]',
        "if False",
        "dual_encoder/test_checkpoints.py::flipped",
    ),
    Mutant("digest of an audit", AUDITS, "if not is_whole", "if False", f"{CRASHES}::flipped_bit"),
    Mutant(
        "digest of a result's table",
        "querytruth/evaluation/result_files.py",
        'if file_sha256(file)[0] != stated["sha256"]',
        "if False",
        "evaluation/test_result_files.py::are_not_those",
    ),
    Mutant(
        "digest of a result",
        "querytruth/evaluation/result_files.py",
        'if content["result_digest"] != digest_result(content)',
        "if False",
        "evaluation/test_result_files.py::changed_figure",
    ),
]
