"""What the tokenizer is expected to give, written down ([D18] 4.1)."""

import pytest

from rerank_plugin.text.tokenizer import tokenize

EXPECTED = {
    # the 7 numeric classes
    "12 0 31,236 2,000,000": "<integer> <integer> <integer> <integer>",
    "0.46 .05 0·46 ½": "<fraction> <fraction> <fraction> <fraction>",
    "3.25 1.0 0.0 1½": "<real> <real> <real> <real>",
    "1900 1999 2000 2099": "<19xx> <19xx> <20xx> <20xx>",
    "1899 2103 19995": "<integer> <integer> <integer>",
    "5% 60.2% 1,000%": "<percentage> <percentage> <percentage>",
    "$5 $1,200.50 US$50": "<dollars> <dollars> us <dollars>",
    # powers of ten, typeset and in PubMed's ASCII forms
    "10⁻⁶ 10(-6) 10^-6": "<fraction> <fraction> <fraction>",
    "10⁶ 10(6) 10^6": "<integer> <integer> <integer>",
    # numbers inside words stay
    "p53 B12 H1N1 10mg CD4+": "p53 b12 h1n1 10mg cd4",
    "PM2.5": "pm25",
    # Greek letters
    "β-catenin": "beta catenin",
    "TNF-α TNFα TNF-alpha tnf-Α": "tnfalpha tnfalpha tnfalpha tnfalpha",
    "NF-κB TGF-β1 PPARγ interferon-γ": "nfkappab tgfbeta1 ppargamma interferon gamma",
    "ω-3 omega-3": "omega3 omega3",
    "µg μg": "ug ug",  # U+00B5 and U+03BC
    "µ-opioid μ-opioid": "mu opioid mu opioid",
    "και": "και",
    # abbreviations
    "IL-2 il-2 IL2 COVID-19": "il2 il2 il2 covid19",
    "U.S.A. e.g. i.e.": "usa eg ie",
    "type-2 type 2 day-7": "type <integer> type <integer> day <integer>",
    # letters and marks
    "ﬁbrosis oﬀ": "fibrosis off",
    "Sjögren’s Parkinson's don't": "sjogren parkinson dont",
    "H₂O CO₂ Ca²⁺": "h2o co2 ca2",
    "x-ray T-cell anti-inflammatory": "x ray t cell anti inflammatory",
    "p<0.001; (95% CI 0.38–0.55)": "p <fraction> <percentage> ci <fraction> <fraction>",
    "糖尿病 🙂 !?": "糖尿病",
    "": "",
}


@pytest.mark.parametrize("text", EXPECTED)
def test_expected(text):
    assert tokenize(text) == EXPECTED[text].split()
