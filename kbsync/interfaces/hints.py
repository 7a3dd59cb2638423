"""What to try where a search found nothing. Pure."""

from __future__ import annotations

from kbsync.interfaces.records import shown_path
from kbsync.knowledge_base.facade import Unmet


def hint_of(unmet: Unmet) -> str | None:
    """Return what to try where nothing was found, None where words alone decided."""
    if unmet.no_words:
        return "Type words that should be in it: `kbsync search boiler invoice`."
    said = []
    for each in unmet.filters:
        values = ", ".join(shown_path(str(value)) or "" for value in each.values)
        if each.field == "source":
            known = ", ".join(shown_path(path) or "" for path in unmet.sources) or "none"
            said.append(f"Nothing is indexed of a source {values}. Sources: {known}.")
        elif each.field == "language":
            said.append(f"No document is in {values}. Languages: {', '.join(unmet.languages) or 'none'}.")
        elif each.field == "place":
            said.append(f"Nothing that is indexed lies in {values}.")
        elif each.field == "type":
            said.append(f"No document has the type {values}.")
    return " ".join(said) or None
