"""Files: outputs that appear whole or not at all."""
