"""What `kbsync doctor` looks at. `examine` tells the story; each module looks at one part of the machine and judges it.

In each a `look` gathers facts and a pure `judge` says what they mean and which one thing helps. Nothing here writes.
"""
