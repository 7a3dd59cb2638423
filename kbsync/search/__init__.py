"""How things are found: words (FTS5) and meaning (vectors), fused."""
