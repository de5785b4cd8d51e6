"""The page at /: one HTML file without external resources."""

import functools
import importlib.resources

# The page may run its own code and send requests to this server only.
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


@functools.cache
def page_html() -> bytes:
    """Returns the page."""
    return importlib.resources.files("keras_bert.tf_serving.server").joinpath("page.html").read_bytes()
