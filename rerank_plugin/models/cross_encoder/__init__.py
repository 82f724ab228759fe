"""Cross-encoders over Hugging Face encoder folders."""
