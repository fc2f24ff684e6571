"""What both ways of WhatsApp agree on (developers.facebook.com, business-scoped-user-ids, 5 November 2026)."""

import re
from typing import Final

# A person's id within one business portfolio, where numbers may be hidden.
BSUID: Final = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
NUMBER: Final = re.compile(r"[1-9][0-9]{4,19}")  # as payloads state it, without a plus
BUTTONS_MAX: Final = 3
MEDIA_REFERENCE: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # it stands in a URL
