"""The benchmark of the scan counts mechanisms that are found, right and wrong targets."""

from types import SimpleNamespace

from dpwitness.benchmarks.scan.run import Listed, judged, listed


def proposal(name, claim, relation, role="mechanism"):
    recipe = SimpleNamespace(claim=SimpleNamespace(text=claim), form=SimpleNamespace(relation=relation))
    return SimpleNamespace(
        reading=SimpleNamespace(name=SimpleNamespace(name=name)), role=role, runs=bool(claim), recipe=recipe, target=name
    )


def test_the_list_has_ten_named_and_ten_drawn_packages():
    found = listed()
    assert [sum(each.group == group for each in found) for group in ("named", "drawn")] == [10, 10]
    assert sum(len(each.mechanisms) for each in found) > 200


def test_outcomes_are_counted_by_kind_of_claim_and_relation(tmp_path):
    package = Listed("p", "named", "p", (), {"right": "pure l1|l2", "wrong": "pure l1", "lost": "pure l1", "*_client": "pure replace-one"})
    proposals = [
        proposal("right", "pure:1", "l2"),
        proposal("wrong", "approx:1,1e-05", "l1"),
        proposal("lost", "", "", role="other"),
        proposal("a_client", "pure:1", "add-remove"),
    ]
    found = list(judged(package, proposals, tmp_path, "python"))
    assert {name for name, outcome in found if outcome == "listed"} == {"a_client", "right", "wrong", "lost"}
    assert ("right", "right") in found and ("wrong", "wrong") in found and ("a_client", "wrong") in found
    assert ("lost", "found") not in found and sum(outcome == "found" for _, outcome in found) == 3
