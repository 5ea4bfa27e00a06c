"""A storm: a served home under load while faults that a seed chooses strike it.

Run one by hand with `PYTHONPATH=tests python -m contract.storm --help`.
"""
