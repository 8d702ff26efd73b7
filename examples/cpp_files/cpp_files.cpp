// Files of transload in a C++ program, without Python:
//
//   cpp_files show FILE           prints whatever is in FILE as a value tree
//   cpp_files trucks FILE         reads a list of Truck, which Python saved from a dataclass, and sums it up
//   cpp_files write FILE [CODEC]  writes a list of Truck that Python loads as its dataclass; compressed by auto, lz4 or zstd
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <transload/transload.hpp>

// The dataclasses of fleet.py. An aggregate needs no declaration: its fields are found by name.
struct Engine {
  static constexpr std::string_view transload_class = "fleet:Engine";
  std::string kind;
  double power_kw;
};

struct Truck {
  static constexpr std::string_view transload_class = "fleet:Truck";
  std::string plate;
  Engine engine;
  int wheels;
  std::vector<double> loads_kg;  // copied out of the file
  transload::NdView route;       // used where it lies in the mapped file: float32, (stops, 2)
  std::vector<std::string> drivers;
  std::map<std::string, int> tags;
  bool retired;
  std::optional<std::string> note;
};

int show(char const* path) {
  std::printf("%s\n", transload::inspect(transload::load(path)).c_str());
  return 0;
}

int trucks(char const* path) {
  for (Truck const& truck : transload::load<std::vector<Truck>>(path)) {
    double const sum = std::accumulate(truck.loads_kg.begin(), truck.loads_kg.end(), 0.0);
    double north = 0;
    auto const route = truck.route.as<float>();
    for (std::uint64_t stop = 0; stop < route.shape()[0]; ++stop) north += static_cast<double>(route(stop, 1));
    std::printf("%s: %s engine of %g kW, %d wheels, %zu trips, %g kg, %llu stops, north %g, %zu drivers, %zu tags%s%s\n", truck.plate.c_str(),
                truck.engine.kind.c_str(), truck.engine.power_kw, truck.wheels, truck.loads_kg.size(), sum,
                static_cast<unsigned long long>(route.shape()[0]), north, truck.drivers.size(), truck.tags.size(), truck.retired ? ", retired" : "",
                truck.note ? (", " + *truck.note).c_str() : "");
  }
  return 0;
}

int write(char const* path, transload::Compression compression) {
  std::vector<float> const route = {0, 1, 2, 3, 4, 5};
  std::vector<double> loads(100'000);
  std::iota(loads.begin(), loads.end(), 0.0);
  std::vector<Truck> fleet;
  fleet.push_back({.plate = "C++ 20",
                   .engine = {.kind = "electric", .power_kw = 400},
                   .wheels = 6,
                   .loads_kg = loads,
                   .route = transload::NdView::of(std::span(route), {3, 2}),
                   .drivers = {"Ada", "Grete"},
                   .tags = {{"north", 1}, {"cold", 2}},
                   .retired = false,
                   .note = "wrote itself"});
  transload::save(path, fleet, {.compression = compression});
  return 0;
}

int main(int argc, char** argv) {
  std::string_view const verb = argc == 3 || (argc == 4 && std::string_view(argv[1]) == "write") ? argv[1] : "";
  try {
    if (verb == "show") return show(argv[2]);
    if (verb == "trucks") return trucks(argv[2]);
    if (verb == "write") return write(argv[2], argc == 4 ? transload::compression_called(argv[3]) : transload::Compression::none);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "cpp_files: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: cpp_files show|trucks|write FILE, or write FILE auto|lz4|zstd\n");
  return 2;
}
