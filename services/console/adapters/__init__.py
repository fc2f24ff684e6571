"""The desk's record, its lists and its dry run on Postgres and the installed packs."""
