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
# The page names these files, each in a line of its own. The content of the file replaces that line.
_SCRIPTS = ("page_lines.js", "page_models.js")


@functools.cache
def page_html() -> bytes:
    """Returns the page, with its scripts in it."""
    files = importlib.resources.files("keras_bert.tf_serving.server")
    page = files.joinpath("page.html").read_bytes()
    for name in _SCRIPTS:
        page = page.replace(f"// {name}\n".encode(), files.joinpath(name).read_bytes())
    return page
