"""Finds a shorter story of a pipeline that fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.pipeline_stories.failure import StoryFailed
from tests.pipeline_stories.performance import Performance
from tests.pipeline_stories.story import Story
from tests.shrinking import shortest


def failure_of(story: Story) -> StoryFailed | None:
    try:
        Performance(story).run()
    except StoryFailed as failure:
        return failure
    return None


def shrunk(story: Story) -> Story:
    """Remove steps, messages and settings as long as the story fails with the same cause."""
    failure = failure_of(story)
    if failure is None:
        raise ValueError(f"story {story.seed} does not fail")
    story = replace(story, steps=story.steps[: failure.number])
    return shortest(story, failure.cause, shorter_ones, failure_of)


def shorter_ones(story: Story) -> Iterator[Story]:
    steps = story.steps
    for place in reversed(range(len(steps))):
        yield replace(story, steps=[*steps[:place], *steps[place + 1 :]])
    for sections in _simpler(story.sections):
        yield replace(story, sections=sections)
    for place, step in enumerate(steps):
        messages = step.get("messages", ())
        for size in (len(messages) // 2, 1):
            for cut in range(0, len(messages) if size else 0, max(1, size)):
                fewer = {**step, "messages": [*messages[:cut], *messages[cut + size :]]}
                yield replace(story, steps=[*steps[:place], fewer, *steps[place + 1 :]])
        for name in step.keys() - {"op", "messages"}:
            simple = {key: value for key, value in step.items() if key != name}
            yield replace(story, steps=[*steps[:place], simple, *steps[place + 1 :]])
    for name in story.source:
        yield replace(story, source={key: value for key, value in story.source.items() if key != name})
    if story.joins:
        yield replace(story, joins=False)
    for name in ("tasks", "writers"):
        if getattr(story, name) > 1:
            yield replace(story, **{name: 1})


def _simpler(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the mapping without one of its parts; the rules for bad records and tables stay."""
    for name, value in node.items():
        if isinstance(value, Mapping) and name != "errors":
            yield from ({**node, name: simpler} for simpler in _simpler(value))
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
            for place, element in enumerate(value):
                yield {**node, name: [*value[:place], *value[place + 1 :]]}
                for simpler in _simpler(element):
                    yield {**node, name: [*value[:place], simpler, *value[place + 1 :]]}
        if name not in {"errors", "sink", "source-table", "condition", "action", "fields.n.aggregate-function"}:
            yield {key: other for key, other in node.items() if key != name}
