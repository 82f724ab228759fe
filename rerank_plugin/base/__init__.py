"""What every room uses: records, errors, filters, registers, settings, progress."""
