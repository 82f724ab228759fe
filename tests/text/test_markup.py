"""Tags and entities in texts."""

import time

import pytest

from rerank_plugin.text.markup import without_markup


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a <img src='x.gif'/> b", "a  b"),
        ("CO<sub>2</sub>, H<sub>2</sub>O and <i>E. coli</i>", "CO2, H2O and E. coli"),
        ("TNF-&alpha; &lt; 5 &amp; p&#x3B2;&#946;", "TNF-α < 5 & pββ"),
        ("&amp;lt; &amp;amp;beta; &lt;sub&gt;2&lt;/sub&gt;", "< β 2"),  # escaped twice, and more
        ("10<sup>6</sup> to 10<sup>−6</sup>/l, Ca<sup>2+</sup> m<sup>2</sup>", "10^6 to 10^-6/l, Ca2+ m2"),
        ('<p class="x">One</p><p>two<br/>three</p>', "One  two three"),
        ("<jats:p>JATS</jats:p><jats:title>Aims</jats:title>", "JATS  Aims"),
        ('<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mi>x</mml:mi></mml:math>', "x"),
        ("<A HREF='u' target=_blank>link</A><!-- a\nnote -->", "link"),
        ("<h4>BACKGROUND</h4>Text", "BACKGROUND Text"),
        # no markup
        ("p<0.05 and b>3, 5 < x > 2, a<b and c>d", None),
        ("<integer> <NAME> <unk> <10 kg>", None),
        ("AT&T, R&D; &nosuchentity; &lt &copy 2", None),
        ("plain", None),
        ("", None),
    ],
)
def test_text(text, expected):
    assert without_markup(text) == (text if expected is None else expected)
    assert without_markup(without_markup(text)) == without_markup(text)


@pytest.mark.parametrize("begun, repeated", [("", "<!--"), ("1<sup>", " "), ("<a", " "), ("", "<x:y "), ("", "&")])
def test_the_time_is_linear(begun, repeated):
    started = time.thread_time()
    without_markup(begun + repeated * (100_000 // len(repeated)))
    assert time.thread_time() - started < 3
