"""Parsers: one file a format. Files with a leading underscore are helpers, not plug-ins."""
