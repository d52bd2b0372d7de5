"""Requests for functions other than mechanisms: the declarations in TARGETS of a target file, and
calls of its functions in batches.

`worker` loads this module too, so the module uses only the standard library and NumPy (Python 3.8
or later).
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING or __name__ != "dpwitness_plain_calls":
    from dpwitness.mechanisms.wrappers.programs.inside import codec, introspection
else:  # in a worker, which has loaded these modules before
    codec, introspection = sys.modules["dpwitness_codec"], sys.modules["dpwitness_introspection"]


class PlainCalls:
    """Base class of the worker with the requests ``declarations`` and ``call``."""

    module: Any = None

    def _lookup(self, name: str) -> Any:
        raise NotImplementedError

    def do_declarations(
        self, header: Dict[str, Any], blobs: List[Any], out: List[Any]
    ) -> Dict[str, Any]:
        """Return TARGETS of the target file."""
        found = getattr(self.module, "TARGETS", None)
        if found is None or not hasattr(self.module, "__file__"):
            found = {}
        if not isinstance(found, dict):
            raise introspection.Unfit(
                "TARGETS must be a dict of names and declarations, got "
                f"{introspection.short_repr(found)}"
            )
        for name, declaration in found.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise introspection.Unfit(
                    f"TARGETS: a name must be an identifier, got {introspection.short_repr(name)}"
                )
            if not isinstance(declaration, dict) or not isinstance(declaration.get("kind"), str):
                raise introspection.Unfit(
                    f"TARGETS: {name} must be a dict with a kind, got "
                    f"{introspection.short_repr(declaration)}"
                )
        return {"declared": codec.pack(found, out)}

    def do_call(self, header: Dict[str, Any], blobs: List[Any], out: List[Any]) -> Dict[str, Any]:
        """Call a function with each list of arguments, and return values and exceptions; `marker`
        is a file for the current position.
        """
        function = self._lookup(header["name"])
        if not callable(function) or isinstance(function, types.ModuleType):
            raise introspection.Unfit(
                f"{header['name']} must be a function, got {introspection.short_repr(function)}"
            )
        marker = os.open(header["marker"], os.O_WRONLY)
        try:
            if header["keywords"]:
                function = _with_keywords(function, header["keywords"])
            return {
                "outcomes": [
                    self._outcome(function, packed, i, marker, blobs, out)
                    for i, packed in enumerate(header["calls"])
                ]
            }
        finally:
            os.close(marker)

    def _outcome(
        self, function: Any, packed: Any, i: int, marker: int, blobs: List[Any], out: List[Any]
    ) -> Any:
        """Return the packed value of a call, or its exception."""
        arguments = codec.unpack(packed, blobs)
        os.pwrite(marker, b"%20d" % i, 0)
        kept = len(out)
        try:
            value = function(*arguments)
            return {"value": codec.pack_dataset(value, out)}
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # native code may raise a BaseException
            del out[kept:]
            with contextlib.suppress(Exception):
                return {"raised": codec.pack(error.with_traceback(None), out)}
            return {"raised": codec.pack(RuntimeError(type(error).__name__), out)}


def _with_keywords(function: Any, keywords: List[str]) -> Any:
    """Return a function of positional arguments that are passed on by these names."""
    return lambda *arguments: function(**dict(zip(keywords, arguments)))
