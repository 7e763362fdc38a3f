"""A JSON value as a tree: nodes, paths, limits and matches."""

from viewer.web.views.checkpoints import MAX_ENTRIES, MAX_LEVELS, MAX_MATCHES, MAX_TEXT, TreeNode, json_tree

VALUE = {"entities": [{"tasks": [{"output": "Tea"}, {"a/b": None}]}], "odd key": True, "n": 1.5, "none": {}}


def by_path(node: TreeNode) -> dict[str, str]:
    found = {node.path: node.text}
    for child in node.children:
        found |= by_path(child)
    return found


def test_every_node_has_its_path() -> None:
    found = by_path(json_tree(VALUE).root)
    assert found[".entities[0].tasks[0].output"] == "Tea"
    assert found['.entities[0].tasks[1]["a/b"]'] == "null"
    assert (found['["odd key"]'], found[".n"]) == ("true", "1.5")


def test_a_pointer_leads_to_its_node_and_those_above() -> None:
    tree = json_tree(VALUE, "/entities/0/tasks/1")
    assert [node.name for node in tree.above] == ["", "entities", "0", "tasks"]
    assert [child.pointer for child in tree.root.children] == ["/entities/0/tasks/1/a~1b"]
    assert json_tree(VALUE, tree.root.children[0].pointer).root.text == "null"


def test_an_unknown_pointer_leads_to_the_nearest_node_above() -> None:
    for pointer in ("/entities/0/nothing", "/entities/0/tasks/99999999999999999999", "/entities/0/tasks/-1"):
        assert json_tree(VALUE, pointer).root.pointer.startswith("/entities/0")


def test_the_search_finds_keys_and_values_below_the_node() -> None:
    tree = json_tree(VALUE, query="TEA")
    assert [(one.pointer, one.path, one.excerpt) for one in tree.matches] == [
        ("/entities/0/tasks/0", ".entities[0].tasks[0].output", "Tea")
    ]
    assert [one.path for one in json_tree(VALUE, query="odd").matches] == ['["odd key"]']
    assert json_tree(VALUE, "/none", "tea").matches == []


def test_large_values_stay_within_limits() -> None:
    tree = json_tree({"long": "x" * 10_000, "list": list(range(1_000))}, "", "x")
    long = tree.root.children[0]
    assert len(long.text) == MAX_TEXT + 1
    assert not tree.root.children[1].is_open and tree.root.children[1].size == 1_000
    opened = json_tree({"list": list(range(1_000))}, "/list").root
    assert (len(opened.children), opened.hidden) == (MAX_ENTRIES, 1_000 - MAX_ENTRIES)
    assert len(json_tree(["x"] * 1_000, query="x").matches) == MAX_MATCHES


def test_a_deep_value_opens_a_few_levels_and_continues_at_its_node() -> None:
    deep: object = "bottom"
    for _level in range(150):
        deep = {"in": deep}
    node, levels = json_tree(deep).root, 0
    while node.children:
        node, levels = node.children[0], levels + 1
    assert levels == MAX_LEVELS and not node.is_open and node.size == 1
    assert by_path(json_tree(deep, "/in" * 140).root)[".in" * 150] == "bottom"
