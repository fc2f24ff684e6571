"""The worst model there could be: any tool, any arguments, any claim, any broken form, over thousands of turns of many customers.

After each turn the record is held against what behaviour.md promises (`promises`), by rules of its own. A seed that fails
prints how to run it again: `python -m tests.adversarial --seed N`.
"""
