"""The table of facts: sources, contradictions, corrections, and the sentence of what was found."""

from builders.album.fact_table import AlbumFacts, FactRow, keep_corrections, merge_facts


def _row(kind: str, value: str, source: str = "xmp", **more: str) -> FactRow:
    return FactRow("a.jpg", kind, value, source=source, **more)


def _used(rows: list[FactRow]) -> set[tuple[str, str]]:
    return {(row.kind, row.used_value) for row in rows if row.is_used}


def test_a_sidecar_that_names_people_replaces_those_in_the_file_and_says_so() -> None:
    rows = merge_facts([_row("person", "Tom"), _row("person", "Gracie", "sidecar"), _row("keyword", "sea", "iptc")])
    assert _used(rows) == {("person", "Gracie"), ("keyword", "sea")}
    assert [row.detail for row in rows if row.value == "Tom"] == ["overruled by sidecar"]


def test_equal_values_are_one_row_with_the_region_of_whichever_has_one() -> None:
    rows = merge_facts([_row("person", "gracie", "iptc"), _row("person", "Gracie", region="0.1 0.1 0.2 0.2")])
    assert [(row.value, row.region) for row in rows] == [("Gracie", "0.1 0.1 0.2 0.2")]


def test_two_countries_in_one_file_count_both_as_doubtful() -> None:
    rows = merge_facts([_row("country", "France"), _row("country", "Germany")])
    assert _used(rows) == set() and all(row.detail.startswith("overruled") for row in rows)
    assert AlbumFacts(rows, 1, []).counts()["contradictions"] == 2


def test_of_one_date_the_first_source_counts_and_another_day_is_a_contradiction() -> None:
    rows = merge_facts(
        [
            _row("date", "2019-05-03T10:00:00", "exif"),
            _row("date", "2019-05-02T23:00:00Z", "takeout"),
            _row("date", "2020-01-02T00:00:00", "xmp"),
            _row("date", "2021-05-03T08:00:00Z", "immich"),
        ]
    )
    assert [row.value for row in rows if row.detail] == ["2020-01-02T00:00:00", "2021-05-03T08:00:00Z"]


def test_what_people_corrected_added_and_removed_is_kept_when_files_are_read_again() -> None:
    read = [_row("person", "Grace"), _row("person", "Tom"), _row("city", "Bath")]
    former = [
        _row("person", "Grace", corrected="Gracie"),
        _row("person", "Tom", corrected="-"),
        _row("keyword", "sea", "person"),
        _row("keyword", "gone"),
    ]
    rows = keep_corrections(merge_facts([*read, *(one for one in former if one.source == "person")]), former)
    assert _used(rows) == {("person", "Gracie"), ("city", "Bath"), ("keyword", "sea")}
    assert keep_corrections(merge_facts(read), rows) == rows
    added = FactRow("a.jpg", "city", "Bristol")
    assert _used(merge_facts([*read, added])) >= {("city", "Bristol")}


def test_what_was_found_is_a_sentence() -> None:
    rows = [_row("person", "Gracie"), FactRow("b.jpg", "person", "Gracie"), _row("date", "2019")]
    assert str(AlbumFacts(rows, 1204, [])) == ("of 1,204 photos 2 name people (1); 1 have a date (1); 0 contradictions")
    assert str(AlbumFacts([], 3, [])) == "of 3 photos none have facts; 0 contradictions"
