"""Kernels called by kernels: code that is only linked into its callers.

numba optimises a kernel and makes machine code and a Python wrapper of it, then links its intermediate code into each
kernel that calls it, where all of it is optimised and made into machine code again. A kernel that only kernels call
needs none of the first; a third of the time of compilation goes into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import llvmlite.binding as llvm
from numba.core.boxing import box_array
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, compile_result
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.pythonapi import _boxers
from numba.core.typed_passes import NativeLowering
from numba.core.types import Array

__all__ = ["LinkedCache", "LinkedCompiler", "arrays_boxed_in_c", "set_environments"]


def _refuse(name: str) -> Any:
    """What stands for the compiled kernel; its callers find the code by it."""

    def refuse(*arguments: Any) -> NoReturn:
        raise TypeError(f"{name} is called by other kernels only.")

    return refuse


def _initialisers(library: Any) -> set[Any]:
    """What is called where the code is loaded from the cache; before numba 0.61 a library has none."""
    return getattr(library, "_reload_init", set())


class _LinkedLibrary(JITCodeLibrary):  # type: ignore[misc, unused-ignore]
    """Intermediate code of a kernel and of those that it calls."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            _initialisers(self).update(_initialisers(library))
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()

    @classmethod
    def load(cls, codegen: Any, name: str, bitcode: bytes) -> _LinkedLibrary:
        """Undo `serialize_using_bitcode`."""
        library = cls(codegen, name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_dynamic_globals()
        library._finalized = True
        return library


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[untyped-decorator, unused-ignore]
class _LinkedLowering(NativeLowering):  # type: ignore[misc, unused-ignore]
    """numba's lowering, into such a library."""

    _name = "structopt_linked_lowering"

    def run_pass(self, state: Any) -> bool:
        library = state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        NativeLowering.run_pass(self, state)
        lowered = state["cr"]
        entry = _refuse(state.func_id.func_qualname)
        state.targetctx.insert_user_function(entry, lowered.fndesc, [library])
        state.reload_init.extend(_initialisers(library))
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class LinkedCompiler(CompilerBase):  # type: ignore[misc, unused-ignore]
    """numba's compiler with `_LinkedLowering`."""

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [(_LinkedLowering if kind is NativeLowering else kind, text) for kind, text in manager.passes]
        manager._finalized = False
        manager.finalize()
        return [manager]


def _box_array_in_c(kind: Any, value: Any, compiler: Any) -> Any:
    """Box an array as numba does, but with its Python type as a constant of the kernel."""
    if not compiler.context.enable_nrt:
        return box_array(kind, value, compiler)
    constants, api = compiler.env_manager, compiler.pyapi
    python_type = constants.read_const(constants.add_const(kind.box_type))
    api.unserialize = lambda _: python_type  # of this instance, for its one call
    try:
        return box_array(kind, value, compiler)
    finally:
        del api.unserialize


@contextmanager
def arrays_boxed_in_c() -> Iterator[None]:
    """Compile kernels that return arrays without calls into Python; call it under numba's lock.

    numba's wrapper unpickles the type of each returned array by a Python function. Ctrl-C during the kernel raises
    there, numba ignores the exception, and the call ends with a `SystemError`. Without the function Python raises
    `KeyboardInterrupt` after the call.
    """
    before = _boxers.functions[Array]
    _boxers.functions[Array] = _box_array_in_c
    try:
        yield
    finally:
        _boxers.functions[Array] = before


def set_environments(result: Any) -> None:
    """Tell the machine code of a kernel where the constants are that linked kernels raise errors with.

    numba does so where a kernel has machine code of its own, and where it loads one from its cache.
    """
    for variable in result.library._final_module.global_variables:
        environment = lookup_environment(variable.name)
        if environment is not None:
            result.library.codegen.set_env(variable.name, environment)


class _LinkedFiles(CompileResultCacheImpl):  # type: ignore[misc, unused-ignore]
    """Files of their own, since Python may call the same kernel, and no machine code when they are read."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"linked-{super().get_filename_base(fullname, abiflags)}"

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        (name, _, bitcode), fndesc, environment, signature, objectmode, lifted, annotation, reload_init, used = payload
        for function in reload_init:
            function()
        return compile_result(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=_LinkedLibrary.load(target_context.codegen(), name, bitcode),
            entry_point=_refuse(fndesc.qualname),
            environment=environment,
            fndesc=fndesc,
            signature=signature,
            objectmode=objectmode,
            lifted=lifted,
            type_annotation=annotation,
            reload_init=reload_init,
            referenced_envs=used,
        )


class LinkedCache(FunctionCache):  # type: ignore[misc, unused-ignore]
    """numba's cache on disk, for such code."""

    _impl_class = _LinkedFiles
