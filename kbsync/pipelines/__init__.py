"""File -> text -> pieces: `router` decodes a file's bytes, picks the pipeline of its type and cuts the text to size."""
