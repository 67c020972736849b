"""The bar stands on stderr, on a terminal only, and spoils nothing on stdout."""

import sys

from deeplimits.progress import Bar


def test_no_terminal_no_bar(capsys):
    with Bar(2.0) as bar:
        bar.advance("half", 1.0)
        bar.print("found")
    assert capsys.readouterr() == ("found\n", "")


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Bar(2.0) as bar:
        bar.advance("half done", 1.0)
        bar.print("found")
        bar.advance("all done", 1.0)
    out, err = capsys.readouterr()
    assert out == "found\n"
    assert "all done" in err
    assert Bar(2.0, shown=False).bar is None
