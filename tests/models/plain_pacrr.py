"""PACRR cell by cell in plain Python, from the paper, for tests."""

import math


def best_windows(matrix, words, columns):
    """The starts of the windows of ``words`` words that kwindow keeps."""
    closest = [math.floor(round(2**24 * max(column)) / 1024 + 0.5) for column in zip(*matrix)]
    starts = range(len(closest) - words + 1)
    ranked = sorted(starts, key=lambda start: (-sum(closest[start : start + words]), start))
    return sorted(ranked[: columns // words])


def cell(matrix, row, columns, weight, bias):
    """The value of a filter of n x n weights for a query term, at row ``(n - 1) // 2`` of the filter.

    Args:
        columns: n columns of the matrix; columns beyond the document are zeros.
    """
    size, total = len(weight), bias
    for i in range(size):
        for j in range(size):
            place = row - (size - 1) // 2 + i
            if 0 <= place < len(matrix) and 0 <= columns[j] < len(matrix[place]):
                total += weight[i][j] * matrix[place][columns[j]]
    return max(total, 0.0)


def matches(matrix, row, words, filters, distilled_words):
    """All values of a query term for n = ``words``; ``distilled_words`` is None for firstk."""
    length = len(matrix[0])
    if distilled_words is None:
        windows = [[start - (words - 1) // 2 + i for i in range(words)] for start in range(length)]
    else:
        windows = [[start + i for i in range(words)] for start in best_windows(matrix, words, distilled_words)]
    if words == 1:
        return [matrix[row][columns[0]] for columns in windows]
    return [max(cell(matrix, row, columns, *kernel) for kernel in filters) for columns in windows]


def strongest(values, count):
    return (sorted(values, reverse=True) + [0.0] * count)[:count]


def sigmoid(value):
    return 1 / (1 + math.exp(-value)) if value > 0 else math.exp(value) / (1 + math.exp(value))


def recur(rows, inputs, state_weights, biases):
    """The last output of an LSTM of one unit; its gates are input, forget, cell, output."""
    state = output = 0.0
    for row in rows:
        enter, forget, cell, leave = (
            sum(weight * value for weight, value in zip(inputs[gate], row))
            + state_weights[gate] * output
            + biases[gate]
            for gate in range(4)
        )
        state = sigmoid(forget) * state + sigmoid(enter) * math.tanh(cell)
        output = sigmoid(leave) * math.tanh(state)
    return output


def score(matrix, idf, convolutions, signals, lstm, distilled_words=None):
    """The score of a document.

    Args:
        matrix: one list of similarities for each query term. idf: of the terms.
        convolutions: for n = 2, 3, ... a list of filters (weights [n][n], bias).
        signals: n_s. lstm: (weights of the inputs, weights of the last output, biases), one each a gate.
    """
    powers = [math.exp(value - max(idf)) for value in idf]
    rows = []
    for row in range(len(matrix)):
        signals_of_term = []
        for words, filters in enumerate([None, *convolutions], 1):
            signals_of_term += strongest(matches(matrix, row, words, filters, distilled_words), signals)
        rows.append([*signals_of_term, powers[row] / sum(powers)])
    return recur(rows, *lstm)
