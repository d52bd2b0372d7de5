"""Texts from outside in every format: no markup, no link, no control character and no command of
theirs survives.
"""

import io
import re

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_schemas import JUNIT, SARIF

from dpwitness.commands.common import summary
from dpwitness.reports.album import Album
from dpwitness.reports.document import build_document, entries_of
from dpwitness.reports.html_format import html
from dpwitness.reports.machine_formats import junit, sarif
from dpwitness.reports.markdown_formats import markdown, step_summary
from dpwitness.reports.wording import plain
from dpwitness.terminal import Stream

PARTS = [
    *("<script>alert(1)</script>", "<img src=x onerror=1>"),
    "![a](http://x/y.png)",
    *("[a](javascript:1)", "<http://x>", "|", "`", "```", "**b**"),
    *("\n", "\r\n# head", "\x1b[31m", "\x00", "\x07", "\u202e", "\u2066", "\u2028", "\ud800"),
    *("::error file=a::b", "##[error]c", "&lt;", "]]>"),
    *(
        "<!--",
        "-->",
        "</table>",
        "a b",
        "_x_",
        "~~y~~",
        "# ",
        "- ",
        "> ",
        "1. ",
        "\\",
        "<lambda>",
        "{{7*7}}",
    ),
]
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
texts = st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("".join)


def result(evil, kind, verdict):
    pair = {"relation": evil, "why": evil, "d0": evil, "d1": [evil]}
    return {
        **{
            "kind": kind,
            "name": evil,
            "claim": evil,
            "relation": evil,
            "verdict": verdict,
            "headline": evil,
            "evidence": evil,
        },
        **{
            "notes": [evil, evil],
            "pair": pair,
            "description": evil,
            "method": evil,
            "test": evil,
            "expected": evil,
            "route": evil,
        },
        **{
            "upper_end": evil,
            "mismatch": evil,
            "primitives": {evil: evil},
            "environment": {evil: evil},
            "parameter": "epsilon",
        },
        **{
            "target": {"target": evil},
            "source": {"file": evil, "line": 3},
            "accepted": {"reason": evil, "expires": evil, "rules": [evil]},
        },
        "findings": [
            {
                "kind": evil,
                "told": evil,
                "where": evil,
                "check": evil,
                "status": "failed",
                "reason": evil,
            }
        ],
    }


def check_markdown(text):
    """Of HTML only our anchors, of links only those within the page, of pictures none; and no raw
    tag for a careless reader.
    """
    assert "<script" not in text and "<img" not in text and not BAD.search(text)
    left = list(MarkdownIt("commonmark", {"html": True}).enable("table").parse(text))
    while left:
        token = left.pop()
        if token.type in ("html_block", "html_inline"):
            assert re.fullmatch(r'\s*(<a id="[a-z0-9.-]+">)?(</a>)?\s*', token.content), (
                token.content
            )
        assert token.type != "image"
        assert token.type != "link_open" or str(token.attrGet("href")).startswith("#"), token
        left += token.children or []


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    evil=texts,
    kind=st.sampled_from(
        ["black box", "white box", "trace", "canaries", "checks", "utility", "another"]
    ),
)
@example(evil="<lambda>\ud800::error file=a::b\u2066]]>", kind="trace")
def test_no_format_obeys_a_text(evil, kind):
    document = build_document(
        [result(evil, kind, verdict) for verdict in ("VIOLATED", "ERROR")], title=evil, command=evil
    )
    entries = entries_of(document)
    check_markdown(markdown(document, entries))
    check_markdown(step_summary(document))
    assert not any(line.lstrip().startswith("::") for line in step_summary(document).splitlines())
    page = html(document, entries, Album(empty=True))
    assert page.count("<script") == 1 and "<img src=x" not in page and not BAD.search(page)
    JUNIT.validate(junit(document))
    assert not list(SARIF.iter_errors(sarif(document)))
    messages = [each["message"]["text"] for each in sarif(document)["runs"][0]["results"]]
    assert not any(BAD.search(text) or "](" in text for text in messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")  # cells are wrapped
        shown = summary(entries)
    assert not BAD.search(shown) and "##[" not in shown and not re.search(r"(?m)^\s*::", shown)


@pytest.mark.parametrize("part", [*PARTS, "![a](http://x/y.png)\x07[a](javascript:1)"])
def test_each_part_alone(part):
    document = build_document(
        [result(part, "black box", "VIOLATED")], title=part, command=f"dpwitness audit {part}"
    )
    check_markdown(markdown(document, entries_of(document)))


def test_a_terminal_gets_no_mark_that_turns_text():
    written = io.StringIO()
    Stream(written).write("a\u202eb\u2066c\x1b[31md\u2028e\n")
    assert written.getvalue() == "a\\u202eb\\u2066c\\x1b[31md\\u2028e\n"
    assert (
        plain("::error::x\n  ::y\na::b ##[group]")
        == "\\x3a:error::x\n  \\x3a:y\na::b \\x23#[group]"
    )
