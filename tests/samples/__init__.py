"""How sample_logs/ came to be: a small character model really trained, with faults put in, and real writers.

`python -m tests.samples [STORY …]` writes the logs again. It needs torch, tensorboard, lightning and transformers,
which nothing else in the project does. Times, and losses in their last digits, differ from machine to machine: the
files in sample_logs/ are the ones that were written once and looked at.
"""
