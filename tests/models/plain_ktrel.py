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
    weight, bias = layer["in_weight"], layer["in_bias"]
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
        attended.append(layer["out_weight"] @ joined + layer["out_bias"])
    return attended


def normalization(row, weight, bias):
    centred = row - sum(row) / len(row)
    return centred / math.sqrt(sum(centred**2) / len(row) + 1e-5) * weight + bias


def encode(rows, layer, heads):
    """The sum of a sequence's encoded items (float64 [D]), or of the items where there is no layer; a zero for none."""
    rows = [np.asarray(row, np.float64) for row in rows]
    total = np.zeros(len(rows[0]) if rows else 1)
    if not rows or layer is None:
        return sum(rows, total)
    for row, addend in zip(rows, attention(rows, layer, heads)):
        item = normalization(row + addend, layer["norm1_weight"], layer["norm1_bias"])
        inner = np.array([max(0.0, value) for value in layer["weight1"] @ item + layer["bias1"]])
        item = normalization(
            item + layer["weight2"] @ inner + layer["bias2"], layer["norm2_weight"], layer["norm2_bias"]
        )
        total += item
    return total


def score(parts):
    """Equation (1): the sum of factor * cosine over parts (factor, query rows, document rows, layer, heads)."""
    return sum(
        factor * cosine(encode(query, layer, heads), encode(document, layer, heads))
        for factor, query, document, layer, heads in parts
    )


def layer_of(module):
    """The numbers of a ``torch.nn.TransformerEncoderLayer`` by the names above, float64; None for no layer."""
    if module is None:
        return None
    tensors = {
        "in_weight": module.self_attn.in_proj_weight,
        "in_bias": module.self_attn.in_proj_bias,
        "out_weight": module.self_attn.out_proj.weight,
        "out_bias": module.self_attn.out_proj.bias,
        "weight1": module.linear1.weight,
        "bias1": module.linear1.bias,
        "weight2": module.linear2.weight,
        "bias2": module.linear2.bias,
        "norm1_weight": module.norm1.weight,
        "norm1_bias": module.norm1.bias,
        "norm2_weight": module.norm2.weight,
        "norm2_bias": module.norm2.bias,
    }
    return {name: tensor.detach().numpy().astype(np.float64) for name, tensor in tensors.items()}
