"""What shells complete: the commands as plain values, and a script of each shell made from them."""
