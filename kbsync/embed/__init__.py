"""Pieces to vectors: the model's files, its tokenizer, its devices, and the batcher that shares them out fairly."""
