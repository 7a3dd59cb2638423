"""From Docling's document to one Markdown text: headers, lists, tables, the text inside figures. Runs in a child."""

from __future__ import annotations

from docling_core.types.doc.document import ContentLayer, DoclingDocument


def markdown_of(document: DoclingDocument) -> str:
    """Return a document as Markdown, with what a speaker notes and without pictures."""
    return document.export_to_markdown(
        included_content_layers={ContentLayer.BODY, ContentLayer.NOTES},
        image_placeholder="",
        compact_tables=True,
        traverse_pictures=True,
        escape_html=False,
        escape_underscores=False,
    )
