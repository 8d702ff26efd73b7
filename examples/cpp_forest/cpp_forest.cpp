// Forests in a C++ program:
//
//   cpp_forest show FILE               says what is in a forest that Python saved, without treelite
//   cpp_forest copy LIBRARY FROM TO    makes a model of treelite's (of LIBRARY, its shared library) of the forest in FROM, and saves the model in TO
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include <transload/transload.hpp>

/// The bytes of the forest that a file holds: a `treelite.Model` of Python's.
std::span<std::byte const> forest_in(transload::Value const& value) {
  if (value.kind() != transload::ValueKind::adapted || value.name() != "treelite.Model") throw transload::Error(transload::ErrorKind::unsupported, "the file holds no forest");
  return value.inner().as<std::span<std::byte const>>();
}

int show(char const* path) {
  transload::Value const value = transload::load(path);
  transload::Forest const forest = transload::read_forest(forest_in(value));
  std::printf("treelite %d.%d: %llu trees of %llu nodes over %d features\n", forest.version.major_version, forest.version.minor_version,
              static_cast<unsigned long long>(forest.ntrees), static_cast<unsigned long long>(forest.nnodes), forest.nfeatures);
  return 0;
}

int copy(std::string const& library, char const* from, char const* to) {
  transload::Treelite const treelite = transload::Treelite::open(library);
  transload::Value const value = transload::load(from);
  transload::TreeliteModel const model = transload::to_treelite(treelite, transload::read_forest(forest_in(value)));
  transload::Buffer const bytes = transload::from_treelite(treelite, model.handle);
  treelite.free_model(model.handle);
  transload::save(to, transload::Tree::adapted("treelite.Model", transload::Tree::bytes(bytes.bytes())));
  std::printf("copied %zu bytes\n", bytes.nbytes());
  return 0;
}

int main(int argc, char** argv) {
  std::string_view const verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "show" && argc == 3) return show(argv[2]);
    if (verb == "copy" && argc == 5) return copy(argv[2], argv[3], argv[4]);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "cpp_forest: %s\n", error.what());
    return 1;
  }
  std::fputs("cpp_forest show FILE\ncpp_forest copy LIBRARY FROM TO\n", stderr);
  return 2;
}
