"""SevMos ([D18] 4.3.3): the module and what scores from its encodings."""
