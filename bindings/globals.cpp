#include "globals.hpp"

#include "transload/base/error.hpp"

namespace transload::py {

Globals& globals() {
  static Globals instance{};
  return instance;
}

void init_globals() {
  Globals& g = globals();
  if (g.empty_tuple != nullptr) return;
  g.dunder_reduce_ex = intern("__reduce_ex__");
  g.dunder_reduce = intern("__reduce__");
  g.dunder_getstate = intern("__getstate__");
  g.dunder_setstate = intern("__setstate__");
  g.dunder_dict = intern("__dict__");
  g.dunder_module = intern("__module__");
  g.dunder_qualname = intern("__qualname__");
  g.dunder_name = intern("__name__");
  g.dunder_getnewargs = intern("__getnewargs__");
  g.dunder_getnewargs_ex = intern("__getnewargs_ex__");
  g.dunder_mro = intern("__mro__");
  g.dunder_class = intern("__class__");
  g.dtype = intern("dtype");
  g.extend = intern("extend");
  g.append = intern("append");
  g.write = intern("write");
  g.setflags = intern("setflags");
  g.main_module = intern("__main__");
  g.locals_mark = intern("<locals>");

  auto* const object_type = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
  g.object_reduce_ex = attr(object_type, g.dunder_reduce_ex).release();
  g.object_reduce = attr(object_type, g.dunder_reduce).release();
  g.object_getstate = attr(object_type, g.dunder_getstate).release();
  g.object_setattr = attr(object_type, "__setattr__").release();
  Ref const copyreg = import("copyreg");
  g.copyreg_newobj = attr(copyreg.get(), "__newobj__").release();
  g.copyreg_newobj_ex = attr(copyreg.get(), "__newobj_ex__").release();
  g.copyreg_dispatch_table = attr(copyreg.get(), "dispatch_table").release();
  g.copyreg_slotnames = attr(copyreg.get(), "_slotnames").release();
  Ref const builtins = import("builtins");
  g.builtin_getattr = attr(builtins.get(), "getattr").release();
  Ref const operators = import("_operator");
  g.operator_call = attr(operators.get(), "call").release();
  Ref const types = import("types");
  g.function_type = attr(types.get(), "FunctionType").release();
  g.member_descriptor_type = attr(types.get(), "MemberDescriptorType").release();
  Ref const pickle = import("_pickle");  // not pickle, whose Python half takes milliseconds
  g.pickle_buffer_type = attr(pickle.get(), "PickleBuffer").release();
  g.pickle_error = attr(pickle.get(), "PickleError").release();
  g.five = take(PyLong_FromLong(5)).release();
  g.sixty_four = take(PyLong_FromLong(64)).release();
  g.empty_tuple = take(PyTuple_New(0)).release();
}

namespace {

/// Follows `a.b.c` from `root`.
Ref follow(PyObject* root, std::string_view path) {
  Ref at = Ref::borrow(root);
  while (!path.empty()) {
    auto const dot = path.find('.');
    std::string_view const part = path.substr(0, dot);
    PyObject* name = str(part).release();
    PyUnicode_InternInPlace(&name);
    Ref const held(name);
    at = attr(at.get(), name);
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return at;
}

}  // namespace

Ref importable_name(PyObject* object, PyObject* given, std::string& why) {
  Globals const& g = globals();
  // Three classes of the interpreter say that they live where they do not.
  if (object == reinterpret_cast<PyObject*>(Py_TYPE(Py_None))) return str("types:NoneType");
  if (object == reinterpret_cast<PyObject*>(Py_TYPE(Py_Ellipsis))) return str("types:EllipsisType");
  if (object == reinterpret_cast<PyObject*>(Py_TYPE(Py_NotImplemented))) return str("types:NotImplementedType");

  Ref qualname = given != nullptr ? Ref::borrow(given) : try_attr(object, g.dunder_qualname);
  if (!qualname || !PyUnicode_Check(qualname.get())) qualname = try_attr(object, g.dunder_name);
  if (!qualname || !PyUnicode_Check(qualname.get())) {
    why = cat("a ", type_name(object), " has no name");
    return {};
  }
  if (!is_utf8(qualname.get())) {
    why = cat("a ", type_name(object), " has a name that UTF-8 cannot write");
    return {};
  }
  std::string_view const path = utf8(qualname.get());
  Ref module = try_attr(object, g.dunder_module);
  // A class method reads `Class.method`; it lives where its class does.
  static PyObject* const dunder_self = intern("__self__");
  Ref const owner = try_attr(object, dunder_self);
  bool const class_method = owner && PyType_Check(owner.get());
  if (class_method) module = attr(owner.get(), g.dunder_module);
  if (!module) {  // `str.upper` lives where str does
    static PyObject* const dunder_objclass = intern("__objclass__");
    Ref const cls = try_attr(object, dunder_objclass);
    if (cls) module = try_attr(cls.get(), g.dunder_module);
  }
  if (!module || !PyUnicode_Check(module.get())) {
    // As pickle does: look for a loaded module that has the object under this name.
    Ref const pickle = import("pickle");
    module = call_method(pickle.get(), "whichmodule", object, qualname.get());
  }
  if (!PyUnicode_Check(module.get()) || !is_utf8(module.get())) {
    why = cat("a ", type_name(object), " says of its module what is no name");
    return {};
  }
  std::string_view const module_name = utf8(module.get());
  Ref const modules = loaded_modules();
  Ref loaded = Ref::borrow(dict_get(modules.get(), module.get()));
  if (!loaded) {
    loaded = Ref(PyImport_Import(module.get()));
    if (!loaded) {
      PyErr_Clear();
      why = cat(module_name, ":", path, " cannot be named: no module ", module_name);
      return {};
    }
  }
  Ref found;
  try {
    found = follow(loaded.get(), path);
  } catch (Raised const&) {
    PyErr_Clear();
  }
  bool same = found.get() == object;
  if (!same && found && class_method) {  // bound anew at each look
    int const equal = PyObject_RichCompareBool(found.get(), object, Py_EQ);
    check(equal);
    same = equal == 1;
  }
  if (!same) {
    why = found ? cat(module_name, ":", path, " is another object there") : cat(module_name, ":", path, " is not found there");
    return {};
  }
  return str(cat(module_name, ":", path));
}

Ref import_name(std::string_view name) {
  auto const colon = name.find(':');
  std::string const module(name.substr(0, colon));
  Ref const loaded = import(module.c_str());
  // `import a.b` gives a.b itself here: PyImport_ImportModule returns the submodule.
  return follow(loaded.get(), name.substr(colon + 1));
}

long trusted_roles(PyObject* name) {
  PyObject* const roles = dict_get(globals().trusted, name);
  if (roles == nullptr) return 0;
  long const value = PyLong_AsLong(roles);
  if (value == -1 && PyErr_Occurred() != nullptr) throw Raised{};
  return value;
}

void run_lazy_importer(std::string_view name) {
  PyObject* const lazy = globals().lazy;
  if (PyDict_Size(lazy) == 0) return;
  Ref const top = str(name.substr(0, name.find_first_of(".:")));
  Ref const importer = Ref::borrow(dict_get(lazy, top.get()));
  if (!importer) return;
  (void)take(PyObject_CallFunctionObjArgs(importer.get(), nullptr));  // removes itself when it has run
}

void run_arrows_importer() {
  static PyObject* const name = intern("pyarrow");
  if (dict_get(globals().lazy, name) == nullptr) return;
  Ref const modules = loaded_modules();
  if (dict_get(modules.get(), name) != nullptr) run_lazy_importer("pyarrow");
}

}  // namespace transload::py
