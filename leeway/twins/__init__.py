"""Provider twins: small servers that behave like the channels' providers, for tests and for who has no account yet.

A twin takes our sends with the provider's own checks, limits and error codes, gives them ids, and posts webhooks to us with the
provider's signature. What it does next can be set (`faults`): an error, silence after taking the message, a cut connection.
"""
