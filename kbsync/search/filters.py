"""What a person narrows a search to, as one condition over chunks that holds before anything ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from kbsync.model import Filter
from kbsync.search.query import phrase_expression
from kbsync.search.snippet import holds
from kbsync.store import chunks, selection
from kbsync.store.connection import Connection
from kbsync.store.selection import Selection


def selected(connection: Connection, filters: Sequence[Filter], *, every_version: bool) -> Selection:
    """Return what meets all filters: of current documents, or of superseded and missing ones too.

    Reads the titles or sections that a filter by them may mean.
    """
    shown = selection.EVERY_VERSION if every_version else selection.CURRENT
    conditions = []
    for each in filters:
        condition = _condition(connection, each, every_version)
        conditions.append(selection.none_of(condition) if each.excluded else condition)
    return selection.all_of([shown, *conditions]) if conditions else shown


def unmatched(connection: Connection, filters: Sequence[Filter], *, every_version: bool) -> list[Filter]:
    """Return the filters that no document meets, each taken alone; what they leave out is no such filter."""
    return [
        each
        for each in filters
        if not each.excluded
        and not chunks.any_selected(connection, selected(connection, [each], every_version=every_version))
    ]


def _condition(connection: Connection, each: Filter, every_version: bool) -> Selection:
    words = [value for value in each.values if isinstance(value, str)]
    numbers = [value for value in each.values if not isinstance(value, str)]
    match each.field:
        case "type":
            return selection.types(words)
        case "language":
            return selection.languages(words)
        case "source":
            return selection.sources(words, every_version)
        case "place":
            return _places(words, every_version)
        case "title":
            return selection.documents(_holding(connection, chunks.titles_matching, words))
        case "section":
            return selection.chunks(_holding(connection, chunks.sections_matching, words))
        case "since":
            return selection.any_of([selection.since(number) for number in numbers])
        case "before":
            return selection.any_of([selection.before(number) for number in numbers])


def _places(values: Iterable[str], every_version: bool) -> Selection:
    places = [
        selection.under([value], every_version)
        if os.path.isabs(value)
        else selection.in_folders([value], every_version)
        for value in values
        if value.strip(os.sep) or os.path.isabs(value)
    ]
    return selection.any_of(places)


def _holding(
    connection: Connection, candidates: Callable[[Connection, str], dict[int, str]], phrases: Iterable[str]
) -> list[int]:
    """Return the ids whose text holds any of the phrases. Title and section are a part of what the index holds."""
    found: set[int] = set()
    for phrase in phrases:
        expression = phrase_expression(phrase)
        if expression is None:
            continue
        judged: dict[str, bool] = {}
        for number, text in candidates(connection, expression).items():
            if text not in judged:
                judged[text] = holds(text, phrase)
            if judged[text]:
                found.add(number)
    return sorted(found)
