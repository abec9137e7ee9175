"""Tests of the flame graph: a self-contained SVG with widths proportional to the numbers of samples."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.host.flamegraph import MARGIN, WIDTH, draw_flamegraph
from accelbench.profiling.host.stacks import Frame, Stack, parse_stacks

SVG = "{http://www.w3.org/2000/svg}"
ANYTHING = st.text(max_size=40)  # names may contain markup, control characters and lone surrogates
STACKS = st.dictionaries(
    st.builds(Stack, st.integers(1, 3), ANYTHING, st.lists(st.builds(Frame, ANYTHING), max_size=6).map(tuple)),
    st.integers(1, 1000),
    max_size=6,
)


def boxes(svg: str) -> dict[str, tuple[float, float, float]]:
    """Return the left edge, width and top of each box by title."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert box is not None
        found[title.text or ""] = (float(box.attrib["x"]), float(box.attrib["width"]), float(box.attrib["y"]))
    return found


def test_a_box_is_as_wide_as_its_share_of_samples() -> None:
    stacks = parse_stacks("thread (1): main;a (m.py:1);b (m.py:2) 30\nthread (1): main;a (m.py:1);c (m.py:3) 10\n")
    found = boxes(draw_flamegraph(stacks, "Host time"))
    whole = WIDTH - 2 * MARGIN
    assert found["all: 100.0% (40 of 40)"][1] == pytest.approx(whole, abs=1)
    left_b, width_b, top_b = found["b (m.py:2): 75.0% (30 of 40)"]
    left_c, width_c, top_c = found["c (m.py:3): 25.0% (10 of 40)"]
    assert (width_b, width_c) == (pytest.approx(whole * 0.75, abs=1), pytest.approx(whole * 0.25, abs=1))
    assert left_c == pytest.approx(left_b + width_b, abs=1)
    assert top_b == top_c < found["a (m.py:1): 100.0% (40 of 40)"][2]  # a callee is above its caller


def test_the_suites_own_threads_are_omitted_with_a_note_of_their_share() -> None:
    stacks = parse_stacks(
        "thread (1): MainThread;fit (keras.py:1) 30\nthread (2): host sampler;wait (threading.py:1) 30\n"
        "thread (3): host counters;wait (threading.py:1) 30\nthread (4): loader;read (data.py:1) 10\n"
    )
    svg = draw_flamegraph(stacks, "Host time")
    found = boxes(svg)
    assert "all: 100.0% (40 of 40)" in found
    assert {title.partition(":")[0] for title in found} >= {"MainThread (1)", "loader (4)"}
    assert not any(title.startswith("host ") for title in found)
    assert "host counters, host sampler (60%)" in svg
    assert "omitted" in svg
    assert "omitted" not in draw_flamegraph(parse_stacks("thread (1): MainThread;fit (keras.py:1) 30\n"), "")


@settings(deadline=None, max_examples=30)
@given(STACKS, ANYTHING)
def test_any_names_give_self_contained_xml(stacks: dict[Stack, int], title: str) -> None:
    svg = draw_flamegraph(stacks, title)
    svg.encode("utf-8")
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {"svg", "g", "rect", "text", "title"}
    assert not any("href" in name for element in root.iter() for name in element.attrib)
    assert re.findall(r"https?://[^\"<\s]*", svg)[0] == "http://www.w3.org/2000/svg"


@settings(deadline=None, max_examples=30)
@given(STACKS)
def test_all_boxes_are_inside_the_drawing(stacks: dict[Stack, int]) -> None:
    svg = draw_flamegraph(stacks, "")
    height = float(ElementTree.fromstring(svg).attrib["height"])
    for left, width, top in boxes(svg).values():
        assert left >= MARGIN
        assert left + width <= WIDTH - MARGIN + 0.01
        assert 0 <= top < height


def test_a_name_is_cut_to_its_box_and_complete_in_the_title() -> None:
    name = "std::vector<" + "x" * 500 + ">"
    svg = draw_flamegraph({Stack(1, "main", (Frame(name),)): 1}, "")
    texts = [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert not any(name in text for text in texts)
    assert any(text.startswith("std::vector<") and text.endswith("…") for text in texts)
    assert any(title.startswith(name) for title in boxes(svg))


@pytest.mark.slow
def test_thousands_of_rare_stacks_give_a_small_file() -> None:
    stacks = {Stack(1, "main", (Frame("common"), Frame(f"rare{number}"))): 1 for number in range(20_000)}
    assert len(draw_flamegraph(stacks, "")) < 50_000


def test_a_very_deep_stack_is_drawn() -> None:
    stack = Stack(1, "main", tuple(Frame(f"f{depth}") for depth in range(3000)))
    assert len(boxes(draw_flamegraph({stack: 1}, ""))) == 3002
