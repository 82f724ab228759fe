"""Encoder folders in the format of Hugging Face transformers, with a few thousand random weights."""

import torch

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789%$."
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "initializer_range": 0.3,  # so that scores of different documents differ
}


def word_pieces(words):
    """A WordPiece vocabulary: every second word, the first letters of the other words, and all letters."""
    words = sorted(set(words))
    beginnings = {word[:3] for word in words[1::2]}
    pieces = [*words[::2], *beginnings, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    return [*SPECIAL, *sorted(set(pieces))]


def save_bert_tokenizer(folder, words, cased=False):
    """Save a tokenizer; return the size of its vocabulary."""
    from transformers import BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    pieces = word_pieces(words)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=not cased).save_pretrained(folder)
    return len(pieces)


def bert(folder, words, head=False, seed=0, positions=64, cased=False, labels=1, **sizes):
    """A folder with a tiny BERT; with ``head`` a cross-encoder with ``labels`` labels."""
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    size = save_bert_tokenizer(folder, words, cased)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=size, max_position_embeddings=positions, num_labels=labels if head else 2, **{**SIZES, **sizes}
    )
    (BertForSequenceClassification if head else BertModel)(config).save_pretrained(folder)
    return folder


def deberta(folder, words, seed=0):
    """A folder with a tiny DeBERTa with one score; its pooler belongs to the head, not to the encoder."""
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    size = save_bert_tokenizer(folder, words)
    torch.manual_seed(seed)
    config = DebertaV2Config(
        vocab_size=size, max_position_embeddings=64, relative_attention=True, pos_att_type=["c2p", "p2c"],
        position_buckets=8, num_labels=1, **SIZES,
    )  # fmt: skip
    DebertaV2ForSequenceClassification(config).save_pretrained(folder)
    return folder


def save_roberta_tokenizer(folder, texts, prefix_space):
    """A byte-level BPE; without ``prefix_space``, words have other tokens at the beginning of a text."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    trained = ByteLevelBPETokenizer(add_prefix_space=prefix_space)
    trained.train_from_iterator(
        texts, vocab_size=400, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False
    )
    trained.save_model(str(folder))
    tokenizer = RobertaTokenizerFast(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), add_prefix_space=prefix_space
    )
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def roberta(folder, texts, prefix_space=False, seed=0):
    """A folder with a tiny RoBERTa with one score."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    size = save_roberta_tokenizer(folder, texts, prefix_space)
    torch.manual_seed(seed)
    config = RobertaConfig(vocab_size=size, max_position_embeddings=66, type_vocab_size=1, num_labels=1, **SIZES)
    RobertaForSequenceClassification(config).save_pretrained(folder)
    return folder
