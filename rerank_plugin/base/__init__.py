"""Shared by all folders: records, errors, filters, registers, settings, progress."""
