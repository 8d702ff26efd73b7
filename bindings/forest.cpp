/// Forests as treelite has them, in transload._core: looked at, gathered from treelite's models and handed over to treelite.
#include "transload/adapters/forest.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "frames.hpp"
#include "guard.hpp"
#include "process.hpp"
#include "py.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// treelite's functions, of the library that its Python package has loaded.
Treelite const& treelite_of(std::string const& library) {
  static std::mutex mutex;
  static std::map<std::string, Treelite> opened;
  std::lock_guard const lock(mutex);
  auto const found = opened.find(library);
  return found != opened.end() ? found->second : opened.emplace(library, Treelite::open(library)).first->second;
}

std::optional<TreeliteVersion> version_of(PyObject* version) {
  if (version == Py_None) return std::nullopt;
  TreeliteVersion found;
  if (PyArg_ParseTuple(version, "iii", &found.major_version, &found.minor_version, &found.patch) == 0) throw Raised{};
  return found;
}

/// Room in a bytes object, which goes to `bytes`.
Room in_bytes(Ref& bytes) {
  return [&bytes](std::size_t nbytes) {
    bytes = take(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(nbytes)));
    return std::span(reinterpret_cast<std::byte*>(PyBytes_AsString(bytes.get())), nbytes);
  };
}

nb::object check_forest(nb::handle data, nb::handle running) {
  return guarded([&] {
    BufferView const view(data.ptr(), PyBUF_SIMPLE);
    auto const version = version_of(running.ptr());
    Forest forest;
    {
      Released const released;
      forest = read_forest(view.bytes(), version);
    }
    return take(Py_BuildValue("(iKKi)", static_cast<int>(forest.task), static_cast<unsigned long long>(forest.ntrees), static_cast<unsigned long long>(forest.nnodes), forest.nfeatures));
  });
}

nb::object forest_of_treelite(std::string const& library, std::uint64_t model) {
  return guarded([&] {
    Ref bytes;
    from_treelite(treelite_of(library), reinterpret_cast<void*>(model), in_bytes(bytes));
    return bytes;
  });
}

nb::object forest_for_prediction(nb::handle data) {
  return guarded([&] {
    BufferView const view(data.ptr(), PyBUF_SIMPLE);
    Forest const forest = read_forest(view.bytes());
    Ref bytes;
    write_for_prediction(forest, in_bytes(bytes));
    return take(Py_BuildValue("(Oi)", bytes.get(), static_cast<int>(forest.task)));
  });
}

nb::object treelite_of_forest(std::string const& library, nb::handle data, nb::handle running) {
  return guarded([&] {
    BufferView const view(data.ptr(), PyBUF_SIMPLE);
    auto const version = version_of(running.ptr());
    Treelite const& treelite = treelite_of(library);
    TreeliteModel model;
    {
      Released const released;
      model = to_treelite(treelite, read_forest(view.bytes(), version));
    }
    auto keeper = std::make_shared<Keeper>();
    std::byte const* const at = model.block.data();
    std::size_t const nbytes = model.block.nbytes();
    keeper->block = std::move(model.block);
    Ref const block = make_view(std::move(keeper), at, nbytes, true);
    return take(Py_BuildValue("(KO)", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(model.handle)), block.get()));
  });
}

}  // namespace

void bind_forest(nb::module_& module) {
  module.def("check_forest", &check_forest, nb::arg("data"), nb::arg("running").none() = nb::none(),
             nb::sig("def check_forest(data: object, running: tuple[int, int, int] | None = None) -> tuple[int, int, int, int]"),
             "Looks at a forest in treelite's own bytes: (task type, trees, nodes, features). `running`: the version of treelite that will load it.");
  module.def("forest_of_treelite", [](nb::str library, std::uint64_t model) { return forest_of_treelite(library.c_str(), model); }, nb::arg("library"), nb::arg("model"),
             nb::sig("def forest_of_treelite(library: str, model: int) -> bytes"), "The bytes of a model of treelite's, by its handle, gathered from its buffers.");
  module.def("forest_for_prediction", &forest_for_prediction, nb::arg("data"), nb::sig("def forest_for_prediction(data: object) -> tuple[bytes, int]"),
             "A forest, looked at, without its data counts, hessians and gains; and its task type.");
  module.def("treelite_of_forest", [](nb::str library, nb::handle data, nb::handle running) { return treelite_of_forest(library.c_str(), data, running); }, nb::arg("library"), nb::arg("data"),
             nb::arg("running").none() = nb::none(), nb::sig("def treelite_of_forest(library: str, data: object, running: tuple[int, int, int] | None = None) -> tuple[int, object]"),
             "A model of treelite's, by its handle, of bytes that were looked at, and the memory that its arrays lie in, which is kept until the model is freed.");
}

}  // namespace transload::py
