"""The `leeway` command."""


def main() -> None:
    """Placeholder replaced below."""
