"""Random changes of a database's collections, and which rows a table may keep of collections that are gone."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId

from tests.integration.mongodb.sync import MongoPlayground

COLLECTIONS = ("t0", "t1", "t2", "t3")
FIELDS = ("a", "b", "c", "d")
_LARGEST_INT = (1 << 31) - 1
_KEYS = 9  # few, so that one document is changed often, and comes back after it was deleted
ACTIONS = {
    "insert": 6,
    "set": 4,
    "unset": 2,
    "replace": 3,
    "set_within": 2,
    "push": 2,
    "set_many": 1,
    "delete": 3,
    "delete_many": 1,
    "create": 1,
    "drop": 1,
    "rename": 2,
    "rename_over": 1,
    "rename_and_back": 1,
    "drop_database": 0.2,
}


@dataclass
class RandomChanges:
    """Makes random changes. `history` is the list of changes and runs that a failure reports.

    `kept` are the keys that a table may have although no document has them: a drop and a rename yield no rows.
    """

    server: MongoPlayground
    draw: random.Random
    history: list[str] = field(default_factory=list)
    # The server keeps the UUID of a collection that is renamed, but the stand-in makes a new one.
    identities: dict[str, str] = field(default_factory=dict)
    made: int = 0
    lost: set[str] = field(default_factory=set)  # collections that were dropped or renamed
    kept: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def names(self) -> list[str]:
        return sorted(self.server.db.list_collection_names())

    def act(self, times: int) -> None:
        for _ in range(times):
            self.do()
            self.identities = {name: self.identity(name) for name in self.names}

    def identity(self, name: str) -> str:
        if name not in self.identities:
            self.made += 1
            self.identities[name] = str(self.made)
        return self.identities[name]

    def renamed(self, old: str, new: str) -> None:
        self.identities[new] = self.identities.pop(old)

    def do(self) -> None:
        action = self.draw.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        names = self.names
        if not names or action in {"insert", "create"}:
            self.insert(self.draw.choice(COLLECTIONS), empty=action == "create")
        elif action == "drop_database":
            self.say("drop database")
            for name in names:
                self.lose(name)
            self.identities.clear()
            self.server.client.drop_database(self.server.db.name)
        elif action in {"drop", "rename", "rename_over", "rename_and_back"}:
            self.change_collection(action, self.draw.choice(names), names)
        else:
            self.change_document(action, self.draw.choice(names))

    def insert(self, name: str, *, empty: bool = False) -> None:
        if name not in self.names and empty:
            self.say(f"create {name}")
            self.server.db.create_collection(name)
            return
        found = {text_of(document["_id"]) for document in self.server.db[name].find({}, {"_id": 1})}
        new = {text_of(key): key for key in (self.key() for _ in range(self.draw.randint(1, 5)))}
        documents = [{"_id": key, **self.fields()} for text, key in new.items() if text not in found]
        if documents:
            self.say(f"insert into {name} {documents}")
            self.server.db[name].insert_many(documents)

    def change_document(self, action: str, name: str) -> None:
        collection = self.server.db[name]
        keys = [document["_id"] for document in collection.find({}, {"_id": 1})]
        if not keys:
            return
        key, column = self.draw.choice(keys), self.draw.choice(FIELDS)
        chosen, value = {"_id": key}, self.value()
        self.say(f"{action} in {name} {key!r} {column} {value!r}")
        match action:
            case "set":
                collection.update_one(chosen, {"$set": {column: value}})
            case "unset":
                collection.update_one(chosen, {"$unset": {column: ""}})
            case "replace":
                collection.replace_one(chosen, self.fields())
            case "set_within":
                collection.update_one(
                    {**chosen, "n": {"$not": {"$type": "array"}}}, {"$set": {"n": {"x": {"y": value}}}}
                )
                collection.update_one({**chosen, "n.x.y": {"$exists": True}}, {"$set": {"n.x.z": value}})
            case "push":
                collection.update_one(chosen, {"$push": {"list": value}})
            case "set_many":
                collection.update_many({}, {"$set": {column: value}})
            case "delete":
                collection.delete_one(chosen)
                self.kept[name].discard(text_of(key))
            case "delete_many":
                gone = [key for key in keys if self.draw.random() < 0.5]
                collection.delete_many({"_id": {"$in": gone}})
                self.kept[name] -= set(map(text_of, gone))

    def change_collection(self, action: str, name: str, names: list[str]) -> None:
        free = [name for name in COLLECTIONS if name not in names]
        others = [one for one in names if one != name]
        self.lose(name)
        match action:
            case "drop":
                self.say(f"drop {name}")
                self.server.db[name].drop()
                del self.identities[name]
            case "rename" if free:
                new = self.draw.choice(free)
                self.say(f"rename {name} to {new}")
                self.server.db[name].rename(new)
                self.renamed(name, new)
            case "rename_over" if others:
                new = self.draw.choice(others)
                self.lose(new)
                self.say(f"rename {name} over {new}")
                self.server.db[name].rename(new, dropTarget=True)
                self.renamed(name, new)
            case "rename_and_back" if free:
                new = self.draw.choice(free)
                self.say(f"rename {name} to {new} and back")
                self.server.db[name].rename(new)
                self.insert(new)
                self.change_document("delete", new)
                self.change_document("set", new)
                self.lose(new)
                self.server.db[new].rename(name)

    def lose(self, name: str) -> None:
        """Note that the documents that the collection has now leave it without events of their own."""
        self.lost.add(name)
        self.kept[name] |= {text_of(document["_id"]) for document in self.server.db[name].find({}, {"_id": 1})}

    def say(self, what: str) -> None:
        self.history.append(what)

    def key(self) -> Any:
        number = self.draw.randint(1, _KEYS)
        makes: tuple[Callable[[], Any], ...] = (
            lambda: number,
            lambda: f"key {number}",
            lambda: ObjectId(f"{number:024x}"),
            lambda: {"part": number},
        )
        return self.draw.choices(makes, (6, 2, 2, 1))[0]()

    def fields(self) -> dict[str, Any]:
        return {name: self.value() for name in self.draw.sample(FIELDS, self.draw.randint(0, len(FIELDS)))}

    def value(self) -> Any:
        simple = (None, True, False, 7, -3, 2.5, 1 << 40, "", "text", 'quote " and \\', "süß")
        draw = self.draw
        match draw.randint(0, 5):
            case 0:
                return {"x": draw.choice(simple), "y": [draw.choice(simple), {"z": draw.choice(simple)}]}
            case 1:
                return draw.choices(simple, k=draw.randint(0, 3))
        return draw.choice(simple)


def text_of(value: Any) -> str:
    """Return the text that a column has for a value."""
    if isinstance(value, (str, ObjectId)):
        return str(value)
    return json.dumps(_with_long_numbers(value), separators=(",", ":"), ensure_ascii=False)


def _with_long_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_long_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_long_numbers(member) for member in value]
    return {"$numberLong": str(value)} if isinstance(value, int) and value > _LARGEST_INT else value
