"""The report of a gate: JSON for programs, Markdown for a pull request, JUnit XML for CI."""

import re
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from querytruth.evaluation.evaluation_result import describe_queries
from querytruth.evaluation.release_gate import GATE_INTERVAL, GateCheck, GateReport, Verdict
from querytruth.evaluation.result_files import to_plain_json
from querytruth.sets.manifest_notes import describe_certificate

_ICONS = {"PASS": "✅", "FAIL": "❌", "UNDECIDED": "❔", "IDENTICAL": "🟰"}
_REASONS = {"PASS": "loses less", "FAIL": "loses more", "UNDECIDED": "unclear whether it loses less or more"}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")


def gate_to_json(report: GateReport) -> dict[str, Any]:
    """Return data for JSON."""
    plain: dict[str, Any] = {"schema_version": 1, **asdict(report)}
    return plain | {"checks": to_plain_json(plain["checks"])}


def list_verdicts(report: GateReport) -> list[tuple[Verdict, str, str]]:
    """Return by check its verdict, its name, and the reason in one line: what terminal, pull request, CI and flow
    show."""
    checks = [(one.verdict, f"{one.metric}, {one.slice or 'all queries'}", _describe(one)) for one in report.checks]
    return checks + [
        (one.verdict, f"latency {one.percentile}", f"{one.measured_ms:.1f} ms measured, {one.budget_ms:g} ms allowed")
        for one in report.latency
    ]


def _describe(check: GateCheck) -> str:
    change = f"{check.difference:+.4f} [{check.low:+.4f}, {check.high:+.4f}]"
    figures = f"{check.candidate:.4f} against {check.baseline:.4f} on {check.queries:,} queries, {change}"
    line = f"{_REASONS.get(check.verdict, '')} than the {check.margin:g} allowed: {figures}"
    if check.is_identical:
        line = f"both systems score the same on all {check.queries:,} queries"
    if check.verdict in ("PASS", "FAIL"):
        return line
    if check.is_identical:
        line += f"; a loss of up to {-check.low:.2g} could stay undetected, and {check.margin:g} is allowed"
    if check.clusters != check.queries:
        line += f"; {check.clusters:,} topics or images, not {check.queries:,} queries, count"
    further = check.further_queries
    rest = (
        f"about {further:,} more queries would be enough" if further else ("more queries of this kind would not help")
    )
    return f"{line}; {rest}"


def describe_gated_truth(report: GateReport) -> str:
    """Return where the set's queries went, what a verdict does not rule out, and what is certified of the truth."""
    certificate = report.set.get("certificate")
    text = describe_queries({"queries_of_set": report.queries_of_set}, report.queries_of_set.get("count", 0))
    if report.labels:  # three in so many may fail where none of those that were seen does (the rule of three)
        few = f"{min(3 / report.labels, 1):.0%} of labels"
        text += f"; {report.labels:,} labels: the search could fail for up to {few} undetected"
    return f"{text}; the ground truth: {describe_certificate(certificate)}" if certificate else text


def render_gate_markdown(report: GateReport) -> str:
    """Return a heading and a table with a row per check."""
    names = f"{_escape(report.candidate)} against {_escape(report.baseline)}"
    lines = [
        f"### {_ICONS[report.verdict]} {report.verdict}: {names}",
        "",
        f"On {_escape(_name_set(report))}. {GATE_INTERVAL} intervals; p-values corrected for all checks (Holm).",
        "",
        "| | check | |",
        "|---|---|---|",
    ]
    lines += [
        f"| {_ICONS[verdict]} {verdict} | {_escape(name)} | {_escape(reason)} |"
        for verdict, name, reason in list_verdicts(report)
    ]
    if truth := describe_gated_truth(report):
        lines += ["", _escape(truth)]
    return "\n".join(lines) + "\n"


def render_gate_junit(report: GateReport, *, is_undecided_failure: bool) -> bytes:
    """Return a test suite with a case per check. An undecided check fails, or is skipped."""
    suite = ElementTree.Element("testsuite", name=f"querytruth gate {_clean(_name_set(report))}")
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for verdict, name, detail in list_verdicts(report):
        counts["tests"] += 1
        case = ElementTree.SubElement(suite, "testcase", classname=_clean(report.candidate), name=_clean(name))
        if verdict == "FAIL" or (verdict in ("UNDECIDED", "IDENTICAL") and is_undecided_failure):
            counts["failures"] += 1
            ElementTree.SubElement(case, "failure", type=verdict.lower(), message=_clean(detail))
        elif verdict in ("UNDECIDED", "IDENTICAL"):
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_clean(f"{verdict.lower()}: {detail}"))
        else:
            ElementTree.SubElement(case, "system-out").text = _clean(detail)
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def _name_set(report: GateReport) -> str:
    about = report.set
    return f"{about['name']}/v{about['version']}" if about["version"] else str(about["title"])


def _escape(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
