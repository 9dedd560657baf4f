"""How a part asks to be tried: its attribute ``conformance``, under what a caller says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.errors import InvalidPluginError
from rlcore.lookup_errors import did_you_mean


def wished(part: Any, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` where it is not None, else what ``part.conformance`` says, else ``defaults``.

    Raises ``InvalidPluginError`` where ``conformance`` has a key that is not among those given.
    """
    wishes = dict(getattr(part, "conformance", {}))
    for key in wishes:
        if key not in given:
            hint = did_you_mean(key, given)
            raise InvalidPluginError(
                f"{part.__qualname__}.conformance has a key '{key}'{hint} (it may have: {', '.join(given)})"
            )
    said = {key: value for key, value in given.items() if value is not None}
    return {**dict.fromkeys(given), **defaults, **wishes, **said}
