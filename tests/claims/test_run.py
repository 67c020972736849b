"""Claims run step by step: each is stored, resumed where it was cut short, and redone where it no longer answers."""

import pytest
import torch

from deeplimits.claims import run as room
from deeplimits.claims import store
from deeplimits.claims.claim import CONFIRMED, NOT_CONFIRMED, UNDECIDED, Part, from_json, judge, to_json
from deeplimits.claims.one_thread import one_thread
from deeplimits.claims.registry import chosen, claim, keys
from deeplimits.claims.run import run
from deeplimits.errors import DeepLimitsError, InputError
from tests.claims.fake import Fake


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setattr(room, "chosen", lambda asked: ["fake-2001-claim"])
    monkeypatch.setattr(room, "claim", lambda key: made.claim(key))
    return made


def part(verdict, counts=True):
    return Part("a number", 1.0, 1.0, 0.1, "a test", verdict, counts=counts)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([CONFIRMED, CONFIRMED], CONFIRMED),
        ([CONFIRMED, UNDECIDED], UNDECIDED),
        ([UNDECIDED, NOT_CONFIRMED], NOT_CONFIRMED),
        ([], UNDECIDED),
    ],
)
def test_the_verdict_follows_from_the_parts(verdicts, expected):
    assert judge([part(verdict) for verdict in verdicts])[0] == expected


def test_parts_beside_the_claim_leave_its_verdict_alone():
    assert judge([part(CONFIRMED), part(NOT_CONFIRMED, counts=False)]) == (CONFIRMED, "all 1 parts confirmed")


def test_a_long_reason_is_cut():
    assert judge([part(UNDECIDED)] * 6)[1].endswith("; and 2 more")


def test_a_finding_has_the_headline_and_comes_back_from_json(fake, tmp_path):
    (found,) = run(["fake-2001-claim"], store=tmp_path)
    assert (found.predicted, found.measured, found.standard_error) == (1.0, 1.1, 0.1)
    assert (found.verdict, found.size, len(found.parts)) == (CONFIRMED, "full", 2)
    assert found.cpu_seconds >= 0
    assert from_json(to_json([found])) == [found]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99, "findings": []}', '{"format": 1, "findings": [1]}'])
def test_another_document_is_refused(text):
    with pytest.raises(InputError, match="not a record of claims"):
        from_json(text)


def test_an_interrupted_claim_resumes(fake, tmp_path):
    fake.stop = "second"
    with pytest.raises(KeyboardInterrupt):
        list(run(store=tmp_path))
    assert fake.measured == ["first"]
    fake.stop = None
    (found,) = run(store=tmp_path)
    assert fake.measured == ["first", "second"]
    assert [one.name for one in found.parts] == ["first number", "second number"]
    assert list(run(store=tmp_path)) == [found]
    assert fake.measured == ["first", "second"]


def test_stored_steps_are_measured_again_on_demand_at_other_sizes_and_by_other_code(fake, tmp_path, monkeypatch):
    list(run(store=tmp_path))
    list(run(store=tmp_path, again=True))
    assert len(fake.measured) == 4
    (small,) = run(store=tmp_path, size="reduced")
    assert (small.measured, len(fake.measured)) == (1.5, 6)
    list(run(store=tmp_path))
    assert len(fake.measured) == 8
    monkeypatch.setattr(store, "program", lambda: "other code")
    list(run(store=tmp_path))
    assert len(fake.measured) == 10


def test_a_file_cut_short_counts_as_absent(fake, tmp_path):
    list(run(store=tmp_path))
    for path in tmp_path.iterdir():
        path.write_text(path.read_text()[:-20])
    list(run(store=tmp_path))
    assert fake.measured == ["first", "second"] * 2


def test_every_step_is_told(fake):
    told = []
    list(run(done=lambda one, step, timed: told.append((one.key, step.name, timed.step))))
    assert told == [("fake-2001-claim", "first", "first"), ("fake-2001-claim", "second", "second")]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(DeepLimitsError, match="is not a folder"):
        store.Store(tmp_path / "taken")


def test_an_unknown_key_is_refused_before_any_work():
    with pytest.raises(InputError, match="did you mean 'jacot-2018-ntk'"):
        run(["jacot-2018-nkt"])


def test_keys_are_files_and_every_claim_says_who_it_is():
    assert {"hayou-yang-2023-commute", "hayou-2023-commute-ii", "hayou-2020-stable-resnet"} < set(keys())
    assert {"naitsaada-2023-pseudo-iid", "jacot-2018-ntk"} < set(keys())
    for key in keys():
        one = claim(key)
        assert one.key == key
        assert key in one.source
        assert one.statement.endswith(".")
        names = [step.name for step in one.steps]
        assert len(names) == len(set(names))


def test_claims_are_chosen_in_their_order():
    assert chosen([]) == keys()
    assert chosen(keys()[::-1]) == keys()


def test_torch_gets_its_threads_back():
    @one_thread()
    def interrupted():
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
