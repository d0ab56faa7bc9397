"""Redaction: personal data and secrets out of texts and values, before they are written or sent.

Why these libraries. Personal numbers are found by patterns and held to be real by their checksums: python-stdnum has
them for dozens of countries, phonenumbers (a port of libphonenumber) has every country's numbering plan. Together they
are 12 MB and load in a tenth of a second, which a redaction that is on by default has to be. Presidio, the best known
of its class, brings spaCy and numpy and loads for seconds, and its patterns without a model are fewer; it is worth
that where names are to be found, and :func:`~taograph.trace.redaction.names.presidio_names` is how. docs/benchmarks.md
has both measured on the same sentences.
"""

from taograph.trace.redaction.finding import Span
from taograph.trace.redaction.redactor import DEFAULT_KINDS, NATIONAL_KINDS, Redactor
from taograph.trace.redaction.streaming import Stream
from taograph.trace.redaction.tokens import Mode

__all__ = ["DEFAULT_KINDS", "NATIONAL_KINDS", "Mode", "Redactor", "Span", "Stream"]
