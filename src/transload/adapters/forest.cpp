#include "transload/adapters/forest.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "transload/base/error.hpp"

namespace transload {

namespace {

enum class Item : std::uint8_t { i8, u8, text, i32, u32, u64, f32, f64, number };  // number: f32 or f64, as the model says

struct FieldKind {
  std::string_view name;
  Item item;
  bool array;
};

// The order in which treelite 4 writes a model, and then each tree.
constexpr std::array model_fields = {
    FieldKind{"major_ver", Item::i32, false},         FieldKind{"minor_ver", Item::i32, false},     FieldKind{"patch_ver", Item::i32, false},
    FieldKind{"threshold_type", Item::u8, false},     FieldKind{"leaf_output_type", Item::u8, false}, FieldKind{"num_tree", Item::u64, false},
    FieldKind{"num_feature", Item::i32, false},       FieldKind{"task_type", Item::u8, false},      FieldKind{"average_tree_output", Item::u8, false},
    FieldKind{"num_target", Item::i32, false},        FieldKind{"num_class", Item::i32, true},      FieldKind{"leaf_vector_shape", Item::i32, true},
    FieldKind{"target_id", Item::i32, true},          FieldKind{"class_id", Item::i32, true},       FieldKind{"postprocessor", Item::text, true},
    FieldKind{"sigmoid_alpha", Item::f32, false},     FieldKind{"ratio_c", Item::f32, false},       FieldKind{"base_scores", Item::f64, true},
    FieldKind{"attributes", Item::text, true},        FieldKind{"num_opt_field_per_model", Item::i32, false}};
constexpr std::array tree_fields = {
    FieldKind{"num_nodes", Item::i32, false},         FieldKind{"has_categorical_split", Item::u8, false}, FieldKind{"node_type", Item::i8, true},
    FieldKind{"cleft", Item::i32, true},              FieldKind{"cright", Item::i32, true},                FieldKind{"split_index", Item::i32, true},
    FieldKind{"default_left", Item::u8, true},        FieldKind{"leaf_value", Item::number, true},         FieldKind{"threshold", Item::number, true},
    FieldKind{"cmp", Item::i8, true},                 FieldKind{"category_list_right_child", Item::u8, true}, FieldKind{"leaf_vector", Item::number, true},
    FieldKind{"leaf_vector_begin", Item::u64, true},  FieldKind{"leaf_vector_end", Item::u64, true},       FieldKind{"category_list", Item::u32, true},
    FieldKind{"category_list_begin", Item::u64, true}, FieldKind{"category_list_end", Item::u64, true},    FieldKind{"data_count", Item::u64, true},
    FieldKind{"data_count_present", Item::u8, true},  FieldKind{"sum_hess", Item::f64, true},              FieldKind{"sum_hess_present", Item::u8, true},
    FieldKind{"gain", Item::f64, true},               FieldKind{"gain_present", Item::u8, true},           FieldKind{"num_opt_field_per_tree", Item::i32, false},
    FieldKind{"num_opt_field_per_node", Item::i32, false}};

// Places in the tables above.
enum ModelField : std::size_t { major_ver, minor_ver, patch_ver, threshold_type, leaf_output_type, num_tree, num_feature, task_type, average_tree_output, num_target, num_class, leaf_vector_shape, target_id, class_id, postprocessor, base_scores = 17, model_options = 19 };
enum TreeField : std::size_t { num_nodes, has_categorical_split, node_type, cleft, cright, split_index, default_left, leaf_value, threshold, cmp, category_list_right_child, leaf_vector, leaf_vector_begin, leaf_vector_end, category_list, category_list_begin, category_list_end, data_count, data_count_present, sum_hess, sum_hess_present, gain, gain_present, tree_options, node_options };

constexpr std::uint8_t type_f32 = 2;  // treelite's TypeInfo
constexpr std::uint8_t type_f64 = 3;
constexpr std::uint8_t task_most = 4;
constexpr std::int8_t operator_most = 5;
constexpr std::uint64_t text_most = 1 << 20;
constexpr std::uint64_t postprocessor_most = 64;

std::uint32_t itemsize_of(Item item, bool doubles) {
  switch (item) {
    case Item::i8: case Item::u8: case Item::text: return 1;
    case Item::i32: case Item::u32: case Item::f32: return 4;
    case Item::u64: case Item::f64: return 8;
    case Item::number: return doubles ? 8 : 4;
  }
  return 0;
}

char const* format_of(Item item, bool doubles) {
  switch (item) {
    case Item::i8: return "=b";
    case Item::u8: return "=B";
    case Item::text: return "=c";
    case Item::i32: return "=l";
    case Item::u32: return "=L";
    case Item::u64: return "=Q";
    case Item::f32: return "=f";
    case Item::f64: return "=d";
    case Item::number: return doubles ? "=d" : "=f";
  }
  return "";
}

template <class T>
T load(std::byte const* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// Items at any address.
template <class T>
class Items {
 public:
  explicit Items(ForestField const& field) : data_(field.data), n_(field.n) {}
  T operator[](std::uint64_t i) const noexcept { return load<T>(data_ + i * sizeof(T)); }
  [[nodiscard]] std::uint64_t size() const noexcept { return n_; }

 private:
  std::byte const* data_;
  std::uint64_t n_;
};

class Reader {
 public:
  Reader(std::span<std::byte const> bytes, std::optional<TreeliteVersion> running) : bytes_(bytes), running_(running) {}

  Forest read() {
    for (FieldKind const& kind : model_fields) {
      field(kind);
      if (&kind == &model_fields[leaf_output_type]) header();
    }
    model();
    // A tree is 25 fields at least, which bounds what is reserved by what came.
    forest_.fields.reserve(model_fields.size() + static_cast<std::size_t>(forest_.ntrees) * tree_fields.size());
    for (std::uint64_t i = 0; i < forest_.ntrees; ++i) tree(i);
    if (at_ != bytes_.size()) fail(cat(bytes_.size() - at_, " bytes behind the last tree"));
    return std::move(forest_);
  }

 private:
  static constexpr std::uint64_t least_tree_nbytes = 4 + 1 + 21 * 8 + 8;

  [[noreturn]] void fail(std::string const& what) const { raise(ErrorKind::malformed, cat("forest byte ", at_, ": ", what)); }
  void need(bool fact, std::string_view what) const {
    if (!fact) [[unlikely]] fail(std::string(what));
  }

  void field(FieldKind const& kind) {
    ForestField one{.n = 1, .itemsize = itemsize_of(kind.item, forest_.doubles), .format = format_of(kind.item, forest_.doubles)};
    if (kind.array) {
      if (bytes_.size() - at_ < sizeof(std::uint64_t)) fail(cat("the bytes end in the length of ", kind.name));
      one.n = load<std::uint64_t>(bytes_.data() + at_);
      at_ += sizeof(std::uint64_t);
    }
    if (one.n > (bytes_.size() - at_) / one.itemsize) fail(cat(kind.name, " of ", one.n, " items of ", one.itemsize, " bytes, where ", bytes_.size() - at_, " bytes are left"));
    one.data = bytes_.data() + at_;
    at_ += one.n * one.itemsize;
    forest_.fields.push_back(one);
  }

  template <class T>
  T scalar(std::size_t i) const noexcept {
    return load<T>(forest_.fields[i].data);
  }

  /// Versions and types, which say how the rest is read.
  void header() {
    forest_.version = {scalar<std::int32_t>(major_ver), scalar<std::int32_t>(minor_ver), scalar<std::int32_t>(patch_ver)};
    auto const& version = forest_.version;
    auto const text = [](TreeliteVersion const& v) { return cat(v.major_version, ".", v.minor_version, ".", v.patch); };
    std::int32_t const taken = running_ ? running_->major_version : 4;
    if (version.major_version != taken || version.major_version != 4 || version.minor_version < 0) {
      raise(ErrorKind::unsupported, cat("forest: major_ver, minor_ver, patch_ver are ", text(version), ", a forest of treelite ", running_ ? text(*running_) : std::string("4"),
                                        " is taken: the same major version, of 4"));
    }
    auto const thresholds = scalar<std::uint8_t>(threshold_type);
    auto const leaves = scalar<std::uint8_t>(leaf_output_type);
    if (thresholds != leaves || (thresholds != type_f32 && thresholds != type_f64)) fail(cat("threshold_type ", thresholds, " and leaf_output_type ", leaves, ", 2 or 3 for both are taken"));
    forest_.doubles = thresholds == type_f64;
  }

  void model() {
    forest_.ntrees = scalar<std::uint64_t>(num_tree);
    if (forest_.ntrees > (bytes_.size() - at_) / least_tree_nbytes) fail(cat("num_tree is ", forest_.ntrees, ", where ", bytes_.size() - at_, " bytes are left"));
    forest_.nfeatures = scalar<std::int32_t>(num_feature);
    if (forest_.nfeatures < 0) fail(cat("num_feature is ", forest_.nfeatures));
    forest_.task = scalar<std::uint8_t>(task_type);
    if (forest_.task > task_most) fail(cat("task_type is ", forest_.task));
    need(scalar<std::uint8_t>(average_tree_output) <= 1, "average_tree_output is no truth value");
    auto const ntargets = scalar<std::int32_t>(num_target);
    Items<std::int32_t> const classes(forest_.fields[num_class]);
    if (ntargets < 1 || classes.size() != static_cast<std::uint64_t>(ntargets)) fail(cat("num_class has ", classes.size(), " items for num_target ", ntargets));
    std::int32_t most = 1;
    for (std::uint64_t i = 0; i < classes.size(); ++i) {
      if (classes[i] < 1) fail(cat("num_class[", i, "] is ", classes[i]));
      most = std::max(most, classes[i]);
    }
    Items<std::int32_t> const shape(forest_.fields[leaf_vector_shape]);
    need(shape.size() == 2, "leaf_vector_shape has other than 2 items");
    if ((shape[0] != 1 && shape[0] != ntargets) || (shape[1] != 1 && shape[1] != most)) fail(cat("leaf_vector_shape is ", shape[0], " × ", shape[1], " for ", ntargets, " targets of at most ", most, " classes"));
    leaf_items_ = static_cast<std::uint64_t>(shape[0]) * static_cast<std::uint64_t>(shape[1]);
    auto const outputs = static_cast<std::uint64_t>(ntargets) * static_cast<std::uint64_t>(most);
    if (forest_.fields[base_scores].n != outputs) fail(cat("base_scores has ", forest_.fields[base_scores].n, " items, where ", outputs, " are needed"));
    Items<std::int32_t> const targets(forest_.fields[target_id]);
    Items<std::int32_t> const of_class(forest_.fields[class_id]);
    if (targets.size() != forest_.ntrees || of_class.size() != forest_.ntrees) fail(cat("target_id and class_id have ", targets.size(), " and ", of_class.size(), " items for ", forest_.ntrees, " trees"));
    for (std::uint64_t i = 0; i < forest_.ntrees; ++i) {
      // -1: the leaves have a number for every target, or every class.
      bool const target_fits = targets[i] == -1 ? shape[0] == ntargets : targets[i] >= 0 && targets[i] < ntargets && shape[0] == 1;
      std::int32_t const nclasses = targets[i] >= 0 && targets[i] < ntargets ? classes[static_cast<std::uint64_t>(targets[i])] : most;
      bool const class_fits = of_class[i] == -1 ? shape[1] == most : of_class[i] >= 0 && of_class[i] < nclasses && shape[1] == 1;
      if (!target_fits || !class_fits) fail(cat("tree ", i, " is of target_id ", targets[i], " and class_id ", of_class[i], ", which its leaves do not fit"));
    }
    if (forest_.fields[postprocessor].n > postprocessor_most) fail(cat("postprocessor of ", forest_.fields[postprocessor].n, " letters"));
    if (forest_.fields[postprocessor + 4].n > text_most) fail(cat("attributes of ", forest_.fields[postprocessor + 4].n, " letters"));
    no_options(scalar<std::int32_t>(model_options), "num_opt_field_per_model");
  }

  void no_options(std::int32_t n, std::string_view what) const {
    if (n != 0) raise(n > 0 ? ErrorKind::unsupported : ErrorKind::malformed, cat("forest byte ", at_, ": ", what, " is ", n, "; fields of later versions are not known here"));
  }

  void tree(std::uint64_t number) {
    std::size_t const first = forest_.fields.size();
    for (FieldKind const& kind : tree_fields) field(kind);
    auto const one = [&](std::size_t i) -> ForestField const& { return forest_.fields[first + i]; };
    auto const n = load<std::int32_t>(one(num_nodes).data);
    if (n < 1) fail(cat("tree ", number, ": num_nodes is ", n));
    need(load<std::uint8_t>(one(has_categorical_split).data) <= 1, "has_categorical_split is no truth value");
    auto const count = static_cast<std::uint64_t>(n);
    for (std::size_t i = node_type; i <= gain_present; ++i) {
      if (i == leaf_vector || i == category_list) continue;
      if (one(i).n != count && (i < data_count || one(i).n != 0)) fail(cat("tree ", number, ": ", tree_fields[i].name, " has ", one(i).n, " items for ", n, " nodes"));
    }
    for (std::size_t i = data_count; i <= gain; i += 2) {
      if (one(i).n != one(i + 1).n) fail(cat("tree ", number, ": ", tree_fields[i].name, " and whether it is there have ", one(i).n, " and ", one(i + 1).n, " items"));
    }
    for (std::size_t const i : {default_left, category_list_right_child, data_count_present, sum_hess_present, gain_present}) {
      for (std::uint64_t k = 0; k < one(i).n; ++k) {
        if (one(i).data[k] > std::byte{1}) fail(cat("tree ", number, ": ", tree_fields[i].name, "[", k, "] is no truth value"));
      }
    }
    no_options(load<std::int32_t>(one(tree_options).data), "num_opt_field_per_tree");
    no_options(load<std::int32_t>(one(node_options).data), "num_opt_field_per_node");
    nodes(number, n, one);
    forest_.nnodes += count;
  }

  template <class One>
  void nodes(std::uint64_t number, std::int32_t n, One const& one) {
    Items<std::int8_t> const type(one(node_type));
    Items<std::int32_t> const left(one(cleft));
    Items<std::int32_t> const right(one(cright));
    Items<std::int32_t> const feature(one(split_index));
    Items<std::int8_t> const compare(one(cmp));
    Items<std::uint64_t> const vector_begin(one(leaf_vector_begin));
    Items<std::uint64_t> const vector_end(one(leaf_vector_end));
    Items<std::uint64_t> const categories_begin(one(category_list_begin));
    Items<std::uint64_t> const categories_end(one(category_list_end));
    std::uint64_t const nvector = one(leaf_vector).n;
    std::uint64_t const ncategories = one(category_list).n;
    parents_.assign(static_cast<std::size_t>(n), 0);
    for (std::int32_t i = 0; i < n; ++i) {
      auto const k = static_cast<std::uint64_t>(i);
      auto const wrong = [&](std::string const& what) { fail(cat("tree ", number, ", node ", i, ": ", what)); };
      if (vector_begin[k] > vector_end[k] || vector_end[k] > nvector) wrong(cat("leaf_vector from ", vector_begin[k], " to ", vector_end[k], " of ", nvector));
      if (categories_begin[k] > categories_end[k] || categories_end[k] > ncategories) wrong(cat("category_list from ", categories_begin[k], " to ", categories_end[k], " of ", ncategories));
      if (type[k] == 0) {
        if (left[k] != -1 || right[k] != -1) wrong(cat("a leaf with cleft ", left[k], " and cright ", right[k]));
        std::uint64_t const items = vector_end[k] - vector_begin[k];
        if (items != leaf_items_ && (leaf_items_ != 1 || items != 0)) wrong(cat("a leaf of ", items, " numbers, where ", leaf_items_, " are needed"));
        continue;
      }
      if (type[k] != 1 && type[k] != 2) wrong(cat("node_type is ", type[k]));
      if (left[k] < 1 || left[k] >= n || right[k] < 1 || right[k] >= n) wrong(cat("cleft ", left[k], " and cright ", right[k], " of ", n, " nodes"));
      // Each node is the child of one at most and the root of none, so whoever starts at the root comes to an end.
      if (++parents_[static_cast<std::size_t>(left[k])] > 1) wrong(cat("cleft ", left[k], " is the child of two"));
      if (++parents_[static_cast<std::size_t>(right[k])] > 1) wrong(cat("cright ", right[k], " is the child of two"));
      if (feature[k] < 0 || feature[k] >= forest_.nfeatures) wrong(cat("split_index ", feature[k], " of ", forest_.nfeatures, " features"));
      if (type[k] == 1 && (compare[k] < 1 || compare[k] > operator_most)) wrong(cat("cmp is ", compare[k]));
      if (vector_begin[k] != vector_end[k]) wrong("a leaf_vector of a node that is no leaf");
      if (type[k] == 2) categories(one(category_list), categories_begin[k], categories_end[k], wrong);
    }
  }

  /// Who evaluates such a split may keep a bit for every category up to the greatest; all of them together have to stay near what came.
  template <class Wrong>
  void categories(ForestField const& list, std::uint64_t begin, std::uint64_t end, Wrong const& wrong) {
    Items<std::uint32_t> const items(list);
    std::uint32_t most = 0;
    for (std::uint64_t i = begin; i < end; ++i) most = std::max(most, items[i]);
    category_nbytes_ += most / 8;
    if (category_nbytes_ > 16 * bytes_.size() + (1U << 20)) wrong(cat("category ", most, ": a bit for each of so many is too much for a forest of ", bytes_.size(), " bytes"));
  }

  std::span<std::byte const> bytes_;
  std::optional<TreeliteVersion> running_;
  std::size_t at_ = 0;
  Forest forest_;
  std::uint64_t leaf_items_ = 1;
  std::uint64_t category_nbytes_ = 0;
  std::vector<std::uint8_t> parents_;
};

[[noreturn]] void treelite_failed(Treelite const& treelite, std::string_view what) {
  char const* const said = treelite.last_error != nullptr ? treelite.last_error() : nullptr;
  raise(ErrorKind::failed, cat("treelite: ", what, ": ", said != nullptr ? said : "no reason was told"));
}

constexpr std::size_t field_alignment = 16;

std::size_t padded(std::size_t nbytes) { return (nbytes + field_alignment - 1) / field_alignment * field_alignment; }

FieldKind const& kind_of(std::size_t i) { return i < model_fields.size() ? model_fields[i] : tree_fields[(i - model_fields.size()) % tree_fields.size()]; }

/// Fields as treelite writes them: an array behind its length.
void write_fields(std::span<ForestField const> fields, Room const& room) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) total += (kind_of(i).array ? sizeof(fields[i].n) : 0) + fields[i].n * fields[i].itemsize;
  std::byte* to = room(total).data();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    ForestField const& field = fields[i];
    if (kind_of(i).array) {
      std::memcpy(to, &field.n, sizeof field.n);
      to += sizeof field.n;
    }
    std::size_t const nbytes = field.n * field.itemsize;
    if (nbytes > 0) std::memcpy(to, field.data, nbytes);
    to += nbytes;
  }
}

}  // namespace

Forest read_forest(std::span<std::byte const> bytes, std::optional<TreeliteVersion> running) { return Reader(bytes, running).read(); }

void write_for_prediction(Forest const& forest, Room const& room) {
  std::vector<ForestField> fields = forest.fields;
  for (std::size_t i = model_fields.size(); i < fields.size(); ++i) {
    std::size_t const place = (i - model_fields.size()) % tree_fields.size();
    if (place >= data_count && place <= gain_present) fields[i].n = 0;
  }
  write_fields(fields, room);
}

Treelite Treelite::open(std::string const& library) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    char const* const why = ::dlerror();
    raise(ErrorKind::unsupported, cat("treelite's library: ", why != nullptr ? why : library.c_str()));
  }
  auto const find = [&]<class Function>(Function*& function, char const* name) {
    function = reinterpret_cast<Function*>(::dlsym(opened, name));
    expects(function != nullptr, ErrorKind::unsupported, [&] { return cat(library, " has no ", name); });
  };
  Treelite found;
  find(found.serialize, "TreeliteSerializeModelToPyBuffer");
  find(found.deserialize, "TreeliteDeserializeModelFromPyBuffer");
  find(found.free_model, "TreeliteFreeModel");
  find(found.last_error, "TreeliteGetLastError");
  return found;
}

void from_treelite(Treelite const& treelite, void* model, Room const& room) {
  TreeliteFrame* frames = nullptr;  // of treelite's, for this thread, until the next call
  std::size_t nframes = 0;
  if (treelite.serialize(model, &frames, &nframes) != 0) treelite_failed(treelite, "a model could not be written");
  expects(nframes >= model_fields.size() && (nframes - model_fields.size()) % tree_fields.size() == 0, ErrorKind::unsupported,
          [&] { return cat("a model of ", nframes, " fields, which is none of treelite 4"); });
  std::vector<ForestField> fields;
  fields.reserve(nframes);
  for (std::size_t i = 0; i < nframes; ++i) {
    TreeliteFrame const& frame = frames[i];
    FieldKind const& kind = kind_of(i);
    expects(kind.array || frame.nitem == 1, ErrorKind::unsupported, [&] { return cat("treelite's ", kind.name, " has ", frame.nitem, " items"); });
    fields.push_back({.data = static_cast<std::byte const*>(frame.buf), .n = frame.nitem, .itemsize = static_cast<std::uint32_t>(frame.itemsize)});
  }
  write_fields(fields, room);
}

Buffer from_treelite(Treelite const& treelite, void* model, Resource& resource) {
  Buffer bytes;
  from_treelite(treelite, model, [&](std::size_t nbytes) {
    bytes = Buffer::allocate(nbytes, resource);
    return bytes.writable();
  });
  return bytes;
}

TreeliteModel to_treelite(Treelite const& treelite, Forest const& forest, Resource& resource) {
  std::size_t total = 0;
  for (ForestField const& field : forest.fields) total += padded(field.n * field.itemsize);
  TreeliteModel model{.block = Buffer::allocate(total, resource)};
  std::vector<TreeliteFrame> frames;
  frames.reserve(forest.fields.size());
  std::byte* to = model.block.writable().data();
  for (ForestField const& field : forest.fields) {
    std::size_t const nbytes = field.n * field.itemsize;
    if (nbytes > 0) std::memcpy(to, field.data, nbytes);
    frames.push_back({nbytes > 0 ? to : nullptr, const_cast<char*>(field.format), field.itemsize, static_cast<std::size_t>(field.n)});  // treelite only reads it
    to += padded(nbytes);
  }
  if (treelite.deserialize(frames.data(), frames.size(), &model.handle) != 0) treelite_failed(treelite, "a model could not be made");
  return model;
}

}  // namespace transload
