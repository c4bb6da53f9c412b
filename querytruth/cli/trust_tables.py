"""The tables of an audit's report, and of what a set would notice, on the terminal."""

from typing import Any

from querytruth import terminal
from querytruth.audit.pool import JsonRecord
from querytruth.sets.manifest_notes import describe_certificate

_MOST_PARTS = 10  # without a query, listed
_BLIND = {"never": "in the first 10 of any query", "unfound": "found by their own queries"}
_MEASURE_TEXTS = {
    "missing_share": "relevant pairs missing in the set, share",
    "multiplier": "relevant pairs per relevant pair in the set",
    "missing": "relevant pairs missing in the set, number",
    "wrong_share": "wrong pairs among the relevant pairs of the set, share",
}


def show_audit_report(report: dict[str, Any]) -> None:
    """Print the estimates, the slices, and the figures of the systems."""
    answers = report["answers"]
    set_name = f"{report['set']['name']}/v{report['set']['version']}"
    rows: list[list[object]] = [
        [_MEASURE_TEXTS[row["measure"]], *(_number(row[end]) for end in ("value", "low", "high"))]
        for row in report["truth"]
    ]
    if certificate := report.get("certificate"):
        title = f"{report['name']}, an audit of {set_name}"
        terminal.say(f"{title}: {describe_certificate(certificate)}")
    else:
        terminal.print_table(f"{report['name']}, an audit of {set_name}", ["", "estimate", "from", "to (95%)"], rows)
    terminal.say(_describe_answers(answers))
    outside = report["outside"]
    if outside["at_most"] is not None:
        text = f"outside the pool: at most {outside['at_most']:,.0f} relevant pairs of {outside['pairs']:,} (95%), "
        seen = f"{outside['relevant']} of {outside['answered']} judged"
        terminal.say(text + seen)
    if report["judge"] is not None:
        terminal.say(describe_agreement_line(report["judge"]))
    if report["slices"]:
        shown: list[list[object]] = [
            [row["aspect"], row["value"], row["measure"], row["answered"], *_ends(row, "estimate")]
            for row in report["slices"]
        ]
        terminal.print_table("By kind of query", ["", "", "share", "answered", "estimate", "from", "to"], shown)
    figures: list[list[object]] = [
        [row["system"], row["metric"], _number(row["before"]), *_ends(row, "value")] for row in report["figures"]
    ]
    if figures:
        terminal.print_table("Systems", ["system", "metric", "as judged", "corrected", "from", "to"], figures)


def show_corrections(rows: list[dict[str, Any]], truth: list[dict[str, Any]]) -> None:
    """Print the audited figures of systems beside those by the set's own judgments, and how true these are."""
    shown: list[list[object]] = [
        [row["audit"], row["system"], row["metric"], _number(row["before"]), *_ends(row, "value")] for row in rows
    ]
    columns = ["audit", "system", "metric", "as judged", "corrected", "from", "to (95%)"]
    terminal.print_table("Corrected by audits", columns, shown)
    texts = {
        "missing_share": "of the relevant pairs are missing",
        "wrong_share": "of the relevant pairs of the set are wrong",
    }
    for row in truth:
        if row["measure"] in texts:
            share, low, high = ("–" if row[end] is None else f"{row[end]:.1%}" for end in ("value", "low", "high"))
            text = f"{row['audit']}, {row['answered']:,} pairs answered: {share} ({low} to {high})"
            terminal.say(f"{text} {texts[row['measure']]}")


def _ends(row: dict[str, Any], value: str) -> list[str]:
    return [_number(row[end]) for end in (value, "low", "high")]


def _number(value: float | None) -> str:
    """Return a figure with four significant digits, a count as a whole number."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _describe_answers(answers: JsonRecord) -> str:
    text = f"{answers['answered']:,} of {answers['sampled']:,} pairs answered; cannot tell: {answers['cannot_tell']}"
    if answers["judged_twice"]:
        kappa = "" if answers["kappa"] is None else f", kappa {answers['kappa']:.3f}"
        text += f"; {answers['judged_twice']} by two people, {answers['same']} with the same answer{kappa}"
    if answers["people"] > 1 and answers["waiting"]:
        text += f"; {answers['waiting']} waiting for {answers['people']} people"
    if answers["disputed"]:
        text += f"; {len(answers['disputed'])} disputed, waiting for a third person"
    return text


def name_judge(judge: JsonRecord) -> str:
    """Return the name of a judge, and how often it is asked about a pair where it is sampled."""
    samples = f" ({judge['samples']} samples per pair)" if judge.get("samples") else ""
    return f"{judge['name']}{samples}"


def describe_reliability(found: JsonRecord | None) -> str:
    """Return how far the scores of a judge can be believed, in one line."""
    if found is None:
        return "too few or identical answers: the scores are not calibrated and not used"
    error = f"expected calibration error {found['expected_error']:.3f}"
    return f"area under the ROC curve {found['area']:.3f}, {error}, from {found['answers']:,} answers"


def describe_agreement_line(judge: JsonRecord) -> str:
    """Return how a judge agrees with people, in one line."""
    if "reliability" in judge:
        return f"judge {name_judge(judge)}: {describe_reliability(judge['reliability'])}"
    if judge["agreement"] is None:
        return f"judge {judge['name']}: graded none of the pairs that people graded"
    return f"judge {judge['name']}: {describe_agreement(judge['agreement'])}"


def describe_agreement(agreement: JsonRecord) -> str:
    """Return how grades of a judge agree with those of people."""
    kappas = ", ".join(
        f"{text} {agreement[name]:.3f}"
        for name, text in (("kappa", "kappa of grades"), ("kappa_relevant", "relevant or not"))
        if agreement[name] is not None
    )
    rates = ", ".join(
        f"{name} {agreement[name]['value']:.2f} ({agreement[name]['low']:.2f} to {agreement[name]['high']:.2f})"
        for name in ("sensitivity", "specificity")
    )
    shares = f"{agreement['relevant_by_judge']:.1%} of the pairs relevant, people {agreement['relevant_by_people']:.1%}"
    return f"{kappas or 'kappa is not defined'}; the judge calls {shares}; {rates}"


def show_notice(found: JsonRecord) -> None:
    """Print what a set would notice, where the search is blind, and what nobody asks about."""
    from querytruth.audit.notice import describe_reason, describe_sizes, list_blind_kinds

    rows: list[list[object]] = [
        [f"{'! ' if one['reason'] else '  '}{one['kind']}", describe_sizes(one, "en"), f"{one['stopped']:.0%}",
         f"{one['loss']:.4f}", describe_reason(one, found["margin"], "en")]
        for one in found["damages"]
    ]  # fmt: skip
    columns = ["damage", "smallest size [95%]", f"detected at {found['size']:.0%}", "loss", "why it is missed"]
    terminal.print_table(f"{found['metric']} {found['figure']:.4f}, {found['queries']:,} queries", columns, rows)
    leaks = [one for one in found["shortcuts"] if one["beats_chance"]]
    lines = [
        found["line"],
        f"false alarms: {found['false_alarms']:.1%} of {found['resamples']:,} undamaged resamples",
        f"not found by their own queries: {len(found['unfound']):,} of {found['asked']:,} images",
        f"hubs (images returned far more often than others): {len(found['hubs']):,}",
        *(f"  {one['kind']}: {one['share']:.0%} not {_BLIND[one['of']]}, others {one['others']:.0%}"
          for one in list_blind_kinds(found)),
        f"no query covers {len(found['uncovered']):,} images ({found['uncovered_share']:.1%} of the gallery)",
        *(f"  {one['by']} {one['part']}: {one['images']:,} images" for one in found["uncovered_parts"][:_MOST_PARTS]),
        f"{len(leaks)} of {len(found['shortcuts'])} systems that ignore the images beat chance",
        *(f"  {one['system']}: nDCG {one['ndcg']:.3f}, random {one['random']:.3f}" for one in leaks),
    ]  # fmt: skip
    terminal.say("\n".join(lines))
    if found["typing"]:
        show_typing(found["system"]["name"], found["typing"])


def show_typing(name: str, kinds: list[JsonRecord]) -> None:
    """Print how much a system loses when its queries are typed differently, and the query that loses most."""
    rows: list[list[object]] = []
    for one in kinds:
        difference = f"{one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"
        figures = f"{one['before']:.4f}", difference, f"{one['p']:.2g}", f"{one['lost']:,}", f"{one['overlap']:.0%}"
        rows.append([one["kind"], f"{one['queries']:,}", *figures])
    columns = ["typing", "queries", "figure", "difference [95%]", "p", "worse", "same first 10"]
    terminal.print_table(f"{name}: the same queries in other spellings", columns, rows)
    if kinds and kinds[0]["lost"]:
        worst = kinds[0]
        typed = f" typed as “{worst['typed']}”" if worst["typed"] != worst["example"] else ""  # else images changed
        terminal.say(f"{worst['kind']} costs most: for example “{worst['example']}”{typed}")
