"""Knowledge projects: folders of plain files that a person or an assistant reads. They need no database and no vectors.

`project` is the folder, `manifest` and `page` its two lists (manifest.json, project.md), `parsed` a file's text under
its three comments. `ingest` takes new files in, `rebuilding` writes project.md anew, `asking` answers from the files.
"""
