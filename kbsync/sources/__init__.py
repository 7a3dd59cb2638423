"""Where files come from: ignore rules, scanner, watcher, debounce and reconcile. No document and no database here."""
