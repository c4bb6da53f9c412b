"""The report of a gate: JSON for programs, Markdown for a pull request, JUnit XML for CI."""

import re
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from querytruth.evaluation.evaluation_result import describe_queries
from querytruth.evaluation.release_gate import GATE_INTERVAL, GateCheck, GateReport, LatencyCheck
from querytruth.sets.manifest_notes import describe_certificate

_ICONS = {"PASS": "✅", "FAIL": "❌", "UNDECIDED": "❔", "IDENTICAL": "🟰"}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
_DECIMALS = 12


def gate_to_json(report: GateReport) -> dict[str, Any]:
    """Returns data for JSON."""
    plain: dict[str, Any] = {"schema_version": 1, **asdict(report)}
    plain["checks"] = [
        {name: round(value, _DECIMALS) if isinstance(value, float) else value for name, value in check.items()}
        for check in plain["checks"]
    ]
    return plain


def describe_check(check: GateCheck) -> str:
    """Returns the reason of the verdict in one line."""
    change = f"{check.difference:+.4f} [{check.low:+.4f}, {check.high:+.4f}]"
    line = f"{check.candidate:.4f} against {check.baseline:.4f}, {change}; a loss of {check.margin:g} is allowed"
    if check.is_identical:
        line = f"both systems score the same on all {check.queries:,} queries"
    if check.verdict in ("PASS", "FAIL"):
        return line
    if check.is_identical:
        line += f"; a loss of up to {-check.low:.2g} could go unseen, and {check.margin:g} is allowed"
    if check.clusters != check.queries:
        line += f"; {check.clusters:,} topics or images count, not {check.queries:,} queries"
    further = check.further_queries
    rest = f"about {further:,} more queries would be enough" if further else "more queries like these would not do"
    return f"{line}; {rest}"


def describe_latency(check: LatencyCheck) -> str:
    """Returns the measured latency and its budget."""
    return f"{check.measured_ms:.1f} ms measured, {check.budget_ms:g} ms allowed"


def describe_gated_truth(report: GateReport) -> str:
    """Returns where the set's queries went, what a verdict does not rule out, and what is certified of the truth."""
    certificate = report.set.get("certificate")
    shown = report.queries_of_set.get("count", 0)
    text = describe_queries({"queries_of_set": report.queries_of_set}, shown)
    if report.labels:  # three in so many may fail where none of those that were seen does (the rule of three)
        few = f"{min(3 / report.labels, 1):.0%} of labels"
        text += f"; {report.labels:,} labels: that a search fails for up to {few} is not ruled out"
    return f"{text}; the truth: {describe_certificate(certificate)}" if certificate else text


def render_gate_markdown(report: GateReport) -> str:
    """Returns a heading and a table with a row per check."""
    names = f"{_escape(report.candidate)} against {_escape(report.baseline)}"
    lines = [
        f"### {_ICONS[report.verdict]} {report.verdict}: {names}",
        "",
        f"On {_escape(_name_set(report))}. {GATE_INTERVAL} intervals; p-values corrected for all checks (Holm).",
        "",
        "| | metric | slice | queries | candidate | baseline | difference | margin | more queries |",
        "|---|---|---|---:|---:|---:|---|---:|---:|",
    ]
    for check in report.checks:
        cells = [
            f"{_ICONS[check.verdict]} {check.verdict}",
            _escape(check.metric),
            _escape(check.slice or "all"),
            f"{check.queries:,}",
            f"{check.candidate:.4f}",
            f"{check.baseline:.4f}",
            f"{check.difference:+.4f} [{check.low:+.4f}, {check.high:+.4f}]",
            f"{check.margin:g}",
            "" if check.further_queries is None else f"{check.further_queries:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for latency in report.latency:
        label = f"{_ICONS[latency.verdict]} {latency.verdict} latency {latency.percentile}"
        lines += ["", f"{label}: {describe_latency(latency)}"]
    if truth := describe_gated_truth(report):
        lines += ["", _escape(truth)]
    return "\n".join(lines) + "\n"


def render_gate_junit(report: GateReport, *, is_undecided_failure: bool) -> bytes:
    """Returns a test suite with a case per check. An undecided check fails, or is skipped."""
    suite = ElementTree.Element("testsuite", name=f"querytruth gate {_clean(_name_set(report))}")
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    cases = [(f"{one.metric} {one.slice or 'all queries'}", one.verdict, describe_check(one)) for one in report.checks]
    cases += [(f"latency {one.percentile}", one.verdict, describe_latency(one)) for one in report.latency]
    for name, verdict, detail in cases:
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
