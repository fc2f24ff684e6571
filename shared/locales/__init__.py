"""How a language says yes, no, stop and "a person, please", and how the system words what it says. Data.

A new locale is a new file: `load` refuses one that is incomplete or in which a phrase has two meanings.
"""

from shared.locales.loader import available, load
from shared.locales.locale import Locale, Reading, read

__all__ = ["Locale", "Reading", "available", "load", "read"]
