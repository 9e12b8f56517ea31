"""What a client administers: overrides, entities, namespaces, and the events that tell of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from .errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import datetime

    _Key = Union[str, bytes]
    _Instant = Union[str, datetime]
    _Limits = Mapping[str, Mapping[str, Any]]

#: Method, path, names below it, query, body, and the version that must be there.
_Exchange = tuple[
    str, str, list[str], list[tuple[str, str]], Optional[str], Optional[int]
]

_AUDIT = "/v1/audit"
_ENTITIES = "/v1/entities"
_NAMESPACES = "/v1/namespaces"
_OVERRIDES = "/v1/overrides"


def query(**said: Any) -> list[tuple[str, str]]:
    """What is said, as a query has it."""
    return [(name, str(value)) for name, value in said.items() if value is not None]


def instant(at: Optional[_Instant]) -> Optional[str]:
    """An instant, as the server reads it."""
    if at is None or isinstance(at, str):
        return at
    if at.tzinfo is None:
        raise ValueError("an instant has a time zone: datetime(..., tzinfo=timezone.utc)")
    return at.isoformat()


def whose(
    policy: Optional[str], key: Optional[_Key], entity: Optional[str]
) -> list[tuple[str, str]]:
    """A policy, and a key or an entity, as a query and a body have them."""
    text, coded = key, None
    if isinstance(key, bytes):
        text, coded = None, base64.b64encode(key).decode()
    return query(policy=policy, key=text, key_base64=coded, entity=entity)


def looked_up(
    path: str, names: Optional[list[str]] = None, asked: Optional[list[tuple[str, str]]] = None
) -> _Exchange:
    """What is at ``path``, below it at each of ``names``."""
    return "GET", path, names or [], asked or [], None, None


def _page(path: str, limit: int, cursor: Optional[str], **said: Any) -> _Exchange:
    return looked_up(path, [], query(limit=limit, cursor=cursor, **said))


def _place(
    policy: Optional[str], key: Optional[_Key], entity: Optional[str], everywhere: bool
) -> list[tuple[str, str]]:
    """Where an override is set. For everyone is said, and not left out."""
    is_somewhere = policy is not None or key is not None or entity is not None
    if is_somewhere == everywhere:
        raise InvalidRequest("say a policy, a key or an entity, or everywhere=True and none of them")
    return whose(policy, key, entity)


def _body(**said: Any) -> str:
    return json.dumps({name: value for name, value in said.items() if value is not None})


def _set_override(
    limits: _Limits,
    place: list[tuple[str, str]],
    expires_in: Optional[float],
    reason: Optional[str],
    if_version: Optional[int],
) -> _Exchange:
    expires = None if expires_in is None else max(1, round(expires_in * 1000))
    said = {name: dict(limit) for name, limit in limits.items()}
    body = _body(**dict(place), limits=said, reason=reason, expires_in_ms=expires)
    return "PUT", _OVERRIDES, [], [], body, if_version


def _remove_override(
    place: list[tuple[str, str]], reason: Optional[str], if_version: Optional[int]
) -> _Exchange:
    return "DELETE", _OVERRIDES, [], place + query(reason=reason), None, if_version


def _list_audit(
    of: list[tuple[str, str]],
    since: Optional[_Instant],
    until: Optional[_Instant],
    limit: int,
    cursor: Optional[str],
) -> _Exchange:
    asked = query(since=instant(since), until=instant(until), limit=limit, cursor=cursor)
    return looked_up(_AUDIT, [], of + asked)


def _create_entity(id: str, reason: Optional[str], **said: Any) -> _Exchange:
    return "POST", _ENTITIES, [], [], _body(id=id, reason=reason, **said), None


def _change_entity(
    id: str, reason: Optional[str], if_version: Optional[int], **said: Any
) -> _Exchange:
    return "PATCH", _ENTITIES, [id], [], _body(reason=reason, **said), if_version


def _delete_entity(id: str, reason: Optional[str], if_version: Optional[int]) -> _Exchange:
    return "DELETE", _ENTITIES, [id], query(reason=reason), None, if_version


def _entities(parent: Optional[str], limit: int, cursor: Optional[str]) -> _Exchange:
    names = [] if parent is None else [parent, "children"]
    return looked_up(_ENTITIES, names, query(limit=limit, cursor=cursor))


def _create_namespace(name: str, reason: Optional[str]) -> _Exchange:
    return "POST", _NAMESPACES, [], [], _body(name=name, reason=reason), None


def _delete_namespace(name: str, reason: Optional[str]) -> _Exchange:
    return "DELETE", _NAMESPACES, [name], query(reason=reason), None, None


def _namespace_verb(name: str, verb: str, reason: Optional[str]) -> _Exchange:
    return "POST", _NAMESPACES, [name, verb], query(reason=reason), "{}", None


class Administers:
    """The verbs of ``Client`` that administer."""

    _server: Any

    def set_override(
        self,
        limits: _Limits,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        everywhere: bool = False,
        expires_in: Optional[float] = None,
        reason: Optional[str] = None,
        if_version: Optional[int] = None,
    ) -> dict[str, Any]:
        """Has limits hold in place of what the policies say, from the next decision on. Takes the scope
        ``administer``.

        :param limits: by name what each becomes, as a policy file says it:
            ``{"rpm": {"calls": 1000, "per": "1m"}}``.
        :param policy: in this policy; ``key`` or ``entity``: for this one. For everyone in every policy
            say ``everywhere=True``.
        :param expires_in: seconds that it holds; for good unless it is said.
        :param reason: why, in at most 1,024 bytes; the audit event tells it.
        :param if_version: only if this version is there.
        :returns: the override, with its ``version``.
        :raises Conflict: another version is there.
        """
        place = _place(policy, key, entity, everywhere)
        answer: dict[str, Any] = self._server.exchange(*_set_override(limits, place, expires_in, reason, if_version))
        return answer

    def remove_override(
        self,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        everywhere: bool = False,
        reason: Optional[str] = None,
        if_version: Optional[int] = None,
    ) -> None:
        """Removes what was set for exactly this place; what is less specific holds again. Takes the scope
        ``administer``. The arguments are those of ``set_override``.

        :raises UnknownPolicy: nothing is set there.
        :raises Conflict: another version is there.
        """
        place = _place(policy, key, entity, everywhere)
        answer: None = self._server.exchange(*_remove_override(place, reason, if_version))
        return answer

    def list_overrides(
        self,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        limit: int = 100,
        cursor: Optional[str] = None,
    ) -> dict[str, Any]:
        """A page of the overrides. Takes the scope ``observe``.

        :param policy: of this policy alone; ``key``, ``entity``: of this one.
        :param limit: how many a page has at most, up to 1,000; it may have fewer and not be the last.
        :param cursor: that of the page before.
        :returns: ``{"overrides": [...], "cursor": ...}``; on the last page the cursor is ``None``.
        """
        asked = whose(policy, key, entity) + query(limit=limit, cursor=cursor)
        answer: dict[str, Any] = self._server.exchange(*looked_up(_OVERRIDES, [], asked))
        return answer

    def list_audit(
        self,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        since: Optional[_Instant] = None,
        until: Optional[_Instant] = None,
        limit: int = 100,
        cursor: Optional[str] = None,
    ) -> dict[str, Any]:
        """A page of audit events, the oldest first: what was changed, by whom and from where. Takes the
        scope ``observe``.

        :param policy: of this policy; ``key``: of this key; ``entity``: of this entity.
        :param since: from this instant on: a ``datetime`` with a time zone, or a text such as
            ``"2026-01-01T00:00:00Z"``; ``until``: before this one.
        :param limit: how many a page has at most, up to 1,000; it may have fewer and not be the last.
        :param cursor: that of the page before.
        :returns: ``{"events": [...], "cursor": ...}``; on the last page the cursor is ``None``.
        """
        answer: dict[str, Any] = self._server.exchange(*_list_audit(whose(policy, key, entity), since, until, limit, cursor))
        return answer

    def entity(self, id: str) -> dict[str, Any]:
        """An entity as the server's store keeps it, and its ``ancestors``. Takes the scope ``observe``."""
        answer: dict[str, Any] = self._server.exchange(*looked_up(_ENTITIES, [id]))
        return answer

    def list_entities(self, *, parent: Optional[str] = None, limit: int = 100, cursor: Optional[str] = None) -> dict[str, Any]:
        """A page of all entities, or of the children of one. Takes the scope ``observe``.

        :param parent: the id of the entity whose children are listed.
        :param limit: how many a page has at most, up to 1,000; it may have fewer and not be the last.
        :param cursor: that of the page before.
        :returns: ``{"entities": [...], "cursor": ...}``; on the last page the cursor is ``None``.
        """
        answer: dict[str, Any] = self._server.exchange(*_entities(parent, limit, cursor))
        return answer

    def create_entity(
        self,
        id: str,
        *,
        parent: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        charge_parents: Optional[bool] = None,
        reason: Optional[str] = None,
    ) -> dict[str, Any]:
        """Has the server's store keep a new entity. Takes the scope ``administer``, for all policies.

        :param id: 1 to 256 bytes, neither ``.`` nor ``..``.
        :param parent: the entity that it belongs to; it is a root without one.
        :param name: what people call it; ``metadata``: words of yours, 16 at most.
        :param charge_parents: whether its ancestors' limits count, too; they do unless this is ``False``.
        :param reason: why, in at most 1,024 bytes; the audit event tells it.
        :raises Conflict: there is one of this id.
        """
        said = {"parent": parent, "name": name, "charge_parents": charge_parents}
        words = None if metadata is None else dict(metadata)
        answer: dict[str, Any] = self._server.exchange(*_create_entity(id, reason, metadata=words, **said))
        return answer

    def change_entity(
        self,
        id: str,
        *,
        parent: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        charge_parents: Optional[bool] = None,
        reason: Optional[str] = None,
        if_version: Optional[int] = None,
    ) -> dict[str, Any]:
        """Changes what is said of an entity; what is left out stays. The arguments are those of
        ``create_entity``.

        :param if_version: only if this version is there.
        :raises Conflict: another version is there; it holds leases, and cannot move.
        """
        said = {"parent": parent, "name": name, "charge_parents": charge_parents}
        words = None if metadata is None else dict(metadata)
        answer: dict[str, Any] = self._server.exchange(*_change_entity(id, reason, if_version, metadata=words, **said))
        return answer

    def delete_entity(self, id: str, *, reason: Optional[str] = None, if_version: Optional[int] = None) -> None:
        """Deletes an entity that has no children and holds no leases (else ``Conflict``)."""
        answer: None = self._server.exchange(*_delete_entity(id, reason, if_version))
        return answer

    def namespace(self, name: str) -> dict[str, Any]:
        """A namespace of the server. This, and the verbs below, need a token for every namespace."""
        answer: dict[str, Any] = self._server.exchange(*looked_up(_NAMESPACES, [name]))
        return answer

    def list_namespaces(self, *, limit: int = 100, cursor: Optional[str] = None) -> dict[str, Any]:
        """A page of the namespaces: ``{"namespaces": [...], "cursor": ...}``."""
        answer: dict[str, Any] = self._server.exchange(*_page(_NAMESPACES, limit, cursor))
        return answer

    def create_namespace(self, name: str, *, reason: Optional[str] = None) -> dict[str, Any]:
        """Has the store keep a new namespace, which shares nothing with the rest."""
        answer: dict[str, Any] = self._server.exchange(*_create_namespace(name, reason))
        return answer

    def delete_namespace(self, name: str, *, reason: Optional[str] = None) -> dict[str, Any]:
        """A namespace answers no request from then on, and keeps what it has."""
        answer: dict[str, Any] = self._server.exchange(*_delete_namespace(name, reason))
        return answer

    def restore_namespace(self, name: str, *, reason: Optional[str] = None) -> dict[str, Any]:
        """A namespace that was deleted answers again."""
        answer: dict[str, Any] = self._server.exchange(*_namespace_verb(name, "restore", reason))
        return answer

    def purge_namespace(self, name: str, *, reason: Optional[str] = None) -> dict[str, Any]:
        """Removes what a deleted namespace has, some of it in each call: again until ``done`` is true."""
        answer: dict[str, Any] = self._server.exchange(*_namespace_verb(name, "purge", reason))
        return answer

class AsyncAdministers:
    """As ``Administers``, awaited."""

    _server: Any

    def set_override(
        self,
        limits: _Limits,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        everywhere: bool = False,
        expires_in: Optional[float] = None,
        reason: Optional[str] = None,
        if_version: Optional[int] = None,
    ) -> Awaitable[dict[str, Any]]:
        """As ``Client.set_override``."""
        place = _place(policy, key, entity, everywhere)
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_set_override(limits, place, expires_in, reason, if_version))
        return answer

    def remove_override(
        self,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        everywhere: bool = False,
        reason: Optional[str] = None,
        if_version: Optional[int] = None,
    ) -> Awaitable[None]:
        """As ``Client.remove_override``."""
        place = _place(policy, key, entity, everywhere)
        answer: Awaitable[None] = self._server.exchange(*_remove_override(place, reason, if_version))
        return answer

    def list_overrides(
        self,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        limit: int = 100,
        cursor: Optional[str] = None,
    ) -> Awaitable[dict[str, Any]]:
        """As ``Client.list_overrides``."""
        asked = whose(policy, key, entity) + query(limit=limit, cursor=cursor)
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*looked_up(_OVERRIDES, [], asked))
        return answer

    def list_audit(
        self,
        *,
        policy: Optional[str] = None,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        since: Optional[_Instant] = None,
        until: Optional[_Instant] = None,
        limit: int = 100,
        cursor: Optional[str] = None,
    ) -> Awaitable[dict[str, Any]]:
        """As ``Client.list_audit``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_list_audit(whose(policy, key, entity), since, until, limit, cursor))
        return answer

    def entity(self, id: str) -> Awaitable[dict[str, Any]]:
        """As ``Client.entity``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*looked_up(_ENTITIES, [id]))
        return answer

    def list_entities(self, *, parent: Optional[str] = None, limit: int = 100, cursor: Optional[str] = None) -> Awaitable[dict[str, Any]]:
        """As ``Client.list_entities``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_entities(parent, limit, cursor))
        return answer

    def create_entity(
        self,
        id: str,
        *,
        parent: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        charge_parents: Optional[bool] = None,
        reason: Optional[str] = None,
    ) -> Awaitable[dict[str, Any]]:
        """As ``Client.create_entity``."""
        said = {"parent": parent, "name": name, "charge_parents": charge_parents}
        words = None if metadata is None else dict(metadata)
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_create_entity(id, reason, metadata=words, **said))
        return answer

    def change_entity(
        self,
        id: str,
        *,
        parent: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        charge_parents: Optional[bool] = None,
        reason: Optional[str] = None,
        if_version: Optional[int] = None,
    ) -> Awaitable[dict[str, Any]]:
        """As ``Client.change_entity``."""
        said = {"parent": parent, "name": name, "charge_parents": charge_parents}
        words = None if metadata is None else dict(metadata)
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_change_entity(id, reason, if_version, metadata=words, **said))
        return answer

    def delete_entity(self, id: str, *, reason: Optional[str] = None, if_version: Optional[int] = None) -> Awaitable[None]:
        """As ``Client.delete_entity``."""
        answer: Awaitable[None] = self._server.exchange(*_delete_entity(id, reason, if_version))
        return answer

    def namespace(self, name: str) -> Awaitable[dict[str, Any]]:
        """As ``Client.namespace``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*looked_up(_NAMESPACES, [name]))
        return answer

    def list_namespaces(self, *, limit: int = 100, cursor: Optional[str] = None) -> Awaitable[dict[str, Any]]:
        """As ``Client.list_namespaces``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_page(_NAMESPACES, limit, cursor))
        return answer

    def create_namespace(self, name: str, *, reason: Optional[str] = None) -> Awaitable[dict[str, Any]]:
        """As ``Client.create_namespace``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_create_namespace(name, reason))
        return answer

    def delete_namespace(self, name: str, *, reason: Optional[str] = None) -> Awaitable[dict[str, Any]]:
        """As ``Client.delete_namespace``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_delete_namespace(name, reason))
        return answer

    def restore_namespace(self, name: str, *, reason: Optional[str] = None) -> Awaitable[dict[str, Any]]:
        """As ``Client.restore_namespace``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_namespace_verb(name, "restore", reason))
        return answer

    def purge_namespace(self, name: str, *, reason: Optional[str] = None) -> Awaitable[dict[str, Any]]:
        """As ``Client.purge_namespace``."""
        answer: Awaitable[dict[str, Any]] = self._server.exchange(*_namespace_verb(name, "purge", reason))
        return answer
