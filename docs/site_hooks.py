"""What mkdocs does to our pages on the way: docstrings name things by Sphinx roles, which it does not know."""

from __future__ import annotations

import re
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    """Leave of ``:class:`~nptad.NPTAD``` the name alone.

    >>> on_page_content('see :meth:<code>~nptad.NPTAD.fit</code>')
    'see <code>NPTAD.fit</code>'
    """
    return re.sub(r":[a-z]+:<code>~?(?:nptad\.(?:[a-z_]+\.)*)?", "<code>", html)
