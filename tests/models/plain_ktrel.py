"""KTRel written from the paper alone, one item at a time: the twin that the module is checked against.

Frej et al., "Knowledge Based Transformer Model for Information Retrieval" (CIRCLE 2020), section 3, with the encoder
layer of Vaswani et al., "Attention Is All You Need" (2017), sections 3.1 to 3.3, its two normalizations after the
residual connections. float64, explicit loops over items, heads and pairs, no padding anywhere.
"""

import math

import numpy as np

from tests.models.plain_layers import cosine


def attention(rows, layer, heads):
    """Every item's attended values, before the residual connection."""
    dimension = len(rows[0])
    width = dimension // heads
    weight, bias = layer["self_attn.in_proj_weight"], layer["self_attn.in_proj_bias"]
    queries = [weight[:dimension] @ row + bias[:dimension] for row in rows]
    keys = [weight[dimension : 2 * dimension] @ row + bias[dimension : 2 * dimension] for row in rows]
    values = [weight[2 * dimension :] @ row + bias[2 * dimension :] for row in rows]
    attended = []
    for query in queries:
        joined = np.zeros(dimension)
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            products = [float(query[part] @ key[part]) / math.sqrt(width) for key in keys]
            products = [math.exp(product - max(products)) for product in products]  # large ones overflow
            for product, value in zip(products, values):
                joined[part] += product / sum(products) * value[part]
        attended.append(layer["self_attn.out_proj.weight"] @ joined + layer["self_attn.out_proj.bias"])
    return attended


def normalization(row, layer, name):
    centred = row - sum(row) / len(row)
    scaled = centred / math.sqrt(sum(centred**2) / len(row) + 1e-5)
    return scaled * layer[f"{name}.weight"] + layer[f"{name}.bias"]


def feed_forward(row, layer):
    inner = layer["linear1.weight"] @ row + layer["linear1.bias"]
    return layer["linear2.weight"] @ np.maximum(0.0, inner) + layer["linear2.bias"]


def encode(rows, layer, heads):
    """The sum of a sequence's encoded items (float64 [D]), or of the items where there is no layer; a zero for none."""
    rows = [np.asarray(row, np.float64) for row in rows]
    total = np.zeros(len(rows[0]) if rows else 1)
    if not rows or layer is None:
        return sum(rows, total)
    for row, addend in zip(rows, attention(rows, layer, heads)):
        item = normalization(row + addend, layer, "norm1")
        total += normalization(item + feed_forward(item, layer), layer, "norm2")
    return total


def score(parts):
    """Equation (1): the sum of factor * cosine over parts (factor, query rows, document rows, layer, heads)."""
    return sum(
        factor * cosine(encode(query, layer, heads), encode(document, layer, heads))
        for factor, query, document, layer, heads in parts
    )


def layer_of(module):
    """The numbers of a ``torch.nn.TransformerEncoderLayer`` by its names, float64; None for no layer."""
    if module is None:
        return None
    return {name: tensor.numpy().astype(np.float64) for name, tensor in module.state_dict().items()}
