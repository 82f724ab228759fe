"""The Java virtual machine."""
