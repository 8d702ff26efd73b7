#pragma once
/// What every walk needs and no walk changes: interned names, well-known objects, and the tables that
/// `transload._registry` and `transload._trust` fill.

#include "py.hpp"

namespace transload::py {

/// What may be done with a trusted name. Python spells the same numbers in transload._trust.
namespace role {
inline constexpr long make = 1;  ///< `cls.__new__`, then its state
inline constexpr long call = 2;  ///< call it with arguments from the bytes
inline constexpr long hand_on = 4;  ///< put the class or function itself into an object
inline constexpr long any_state = 8;  ///< give state to what it returns, even where others hold that too
inline constexpr long keep = 16;  ///< it keeps its arguments as they are, and neither copies nor hashes nor prints what is in them
}  // namespace role

struct Globals {
  // Names.
  PyObject *dunder_reduce_ex, *dunder_reduce, *dunder_getstate, *dunder_setstate, *dunder_dict, *dunder_module, *dunder_qualname,
      *dunder_name, *dunder_getnewargs, *dunder_getnewargs_ex, *dunder_mro, *dunder_class, *dtype, *extend, *append, *write,
      *setflags, *main_module, *locals_mark;

  // Well-known objects.
  PyObject *object_reduce_ex, *object_reduce, *object_getstate, *object_setattr;
  PyObject *copyreg_newobj, *copyreg_newobj_ex, *copyreg_dispatch_table, *copyreg_slotnames;
  PyObject *builtin_getattr, *operator_call;
  PyObject *function_type, *member_descriptor_type, *pickle_buffer_type, *pickle_error;
  PyObject *empty_tuple, *five, *sixty_four;

  bool pickle_forbidden = false;

  // Tables of the Python side (dicts unless said).
  PyObject* trusted = nullptr;           ///< name → roles
  PyObject* overrides = nullptr;         ///< name → the object that stands for it here
  PyObject* adapters_by_type = nullptr;  ///< class → (wire name, encode or kind str[, methods that a subclass keeps for which it is meant, too])
  PyObject* adapters_by_name = nullptr;  ///< wire name → decode
  PyObject* state_checks = nullptr;      ///< name → callable: (state), raises for what objects of that name may not hold
  PyObject* lazy = nullptr;              ///< top-level module → importer, removed when it has run
  PyObject* errors = nullptr;            ///< kind → exception class
  PyObject* goes_by_value = nullptr;     ///< callable: name → whether its class or function has to be sent by value
  PyObject* by_value = nullptr;          ///< callable: (object, whole) → (pickle bytes, buffers); buffers only when `whole`
  PyObject* from_value = nullptr;        ///< callable: (pickle bytes, buffers) → object
};

/// The process's globals; filled by `init_globals`.
[[nodiscard]] Globals& globals();
void init_globals();

/// `module:qualified.name` of a class or function, when importing that name gives the object itself; else nothing and `why` says why.
/// `qualname` is the name that a reduce function gave, or null: the object's own.
[[nodiscard]] Ref importable_name(PyObject* object, PyObject* qualname, std::string& why);

/// The object of `module:qualified.name`, imported if need be.
///
/// @throws Raised with ImportError or AttributeError.
[[nodiscard]] Ref import_name(std::string_view name);

/// Roles of a trusted name, 0 when it is not on the list.
[[nodiscard]] long trusted_roles(PyObject* name);

/// Runs what `register_lazy` knows for the top-level module of a name: a module's, `module:path`, or a wire name. It stays in the table
/// until it has run, so that threads that come meanwhile wait in it. Does nothing where there is none.
void run_lazy_importer(std::string_view name);
/// Runs that of pyarrow where the process has imported pyarrow.
void run_arrows_importer();

}  // namespace transload::py
