#include "transload/adapters/encode.hpp"

#include <algorithm>
#include <cstring>

#include <optional>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload {

void expects_utf8(std::string_view text) {
  try {
    check_utf8(text, 0, "str");
  } catch (Error const&) {
    raise(ErrorKind::unsupported, "str: the text is not valid UTF-8; send it as bytes");
  }
}

void Encoder::complex(std::complex<double> value) {
  begin(Op::complex, 2);
  real(value.real());
  real(value.imag());
}

void Encoder::str(std::string_view text) {
  expects_utf8(text);
  writer_.root().str(text);
}

void Encoder::bytes(std::span<std::byte const> bytes) {
  // A payload costs a number and a table entry; short bytes are shorter in line.
  if (bytes.size() <= 64) {
    writer_.root().bin(bytes);
    return;
  }
  begin(Op::bytes, 1);
  writer_.root().unsigned_integer(writer_.add_payload(bytes));
}

void Encoder::begin(Op op, std::size_t n, bool marked) {
  writer_.root().array(n + 1);
  writer_.root().unsigned_integer(static_cast<std::uint64_t>(op) | (marked ? mark : 0));
  if (marked) ++nmarked_;
}

void Encoder::begin_dict(std::size_t npairs, bool marked) {
  if (marked) begin(Op::value, 1, true);
  writer_.root().map(npairs);
}

void Encoder::begin_record(std::span<std::string_view const> keys, bool marked) {
  std::uint32_t const shape = shape_index({}, keys);
  begin(Op::record, 1 + keys.size(), marked);
  writer_.root().unsigned_integer(shape);
}

void Encoder::begin_object(std::string_view cls, std::span<std::string_view const> keys, bool marked) {
  expects(!cls.empty(), ErrorKind::unsupported, "object: the class has no name");
  std::uint32_t const shape = shape_index(cls, keys);
  begin(Op::object, 1 + keys.size(), marked);
  writer_.root().unsigned_integer(shape);
}

void Encoder::begin_adapted(std::string_view wire_name, bool marked) {
  expects(!wire_name.empty() && wire_name.find(':') == std::string_view::npos, ErrorKind::unsupported,
          [&] { return cat("adapted: '", wire_name, "' is no wire name"); });
  begin(Op::adapted, 2, marked);
  writer_.root().unsigned_integer(name_index(wire_name));
}

void Encoder::name(std::string_view text, bool marked) {
  begin(Op::name, 1, marked);
  writer_.root().unsigned_integer(name_index(text));
}

void Encoder::ref(std::uint32_t n) {
  begin(Op::ref, 1);
  writer_.root().unsigned_integer(n);
}

std::uint32_t Encoder::name_index(std::string_view text) {
  auto const [at, fresh] = names_.try_emplace(std::string(text), 0);
  if (fresh) {
    expects_utf8(text);
    at->second = writer_.add_name(text);
  }
  return at->second;
}

std::uint32_t Encoder::shape_index(std::string_view cls, std::span<std::string_view const> keys) {
  std::string whole(cls);
  for (std::string_view const key : keys) {
    // The length goes first, so that no two lists of keys look alike.
    whole += cat('\0', key.size(), ' ');
    whole += key;
  }
  if (auto const at = shapes_.find(whole); at != shapes_.end()) return at->second;
  for (std::string_view const key : keys) expects_utf8(key);
  std::optional<std::uint32_t> name;
  if (!cls.empty()) {
    expects(cls.find(':') != std::string_view::npos, ErrorKind::unsupported,
            [&] { return cat("object: class ", cls, " is not of the form module:Class"); });
    name = name_index(cls);
  }
  return shapes_.emplace(std::move(whole), writer_.add_shape(name, keys)).first->second;
}

void Encoder::array(NdView const& array, bool marked) {
  expects(array.dtype().raw(), ErrorKind::unsupported, [&] { return cat("array: raw bytes cannot hold ", array.dtype().text()); });
  if (array.keeper()) keep(array.keeper());
  std::uint64_t const itemsize = array.dtype().itemsize;
  std::uint64_t const nbytes = nd_nbytes(array.shape(), itemsize);
  bool const c_order = array.c_contiguous();
  bool const f_order = !c_order && array.f_contiguous();
  unsigned flags = (array.readonly() ? array_flags::readonly : 0U) | (f_order ? array_flags::fortran : 0U);

  // The bytes that the items touch.
  std::uint64_t low = array.offset();
  std::uint64_t high = nbytes == 0 ? low : low + itemsize;
  for (std::size_t d = 0; d < array.ndim() && nbytes > 0; ++d) {
    std::int64_t const reach = static_cast<std::int64_t>(array.shape()[d] - 1) * array.strides()[d];
    (reach < 0 ? low : high) += static_cast<std::uint64_t>(reach);
  }
  auto bytes = array.bytes().subspan(low, nbytes == 0 ? 0 : high - low);
  bool strided = !c_order && !f_order && nbytes > 0;
  if (strided && bytes.size() / 2 > nbytes) {
    // More gaps than items: a copy in C order is the smaller evil.
    auto copy = std::make_shared<Buffer>(Buffer::allocate(nbytes, *resource_));
    std::byte* out = copy->writable().data();
    std::vector<std::uint64_t> index(array.ndim(), 0);
    std::byte const* item = array.bytes().data() + array.offset();
    for (std::uint64_t left = nbytes / itemsize; left > 0; --left) {
      std::memcpy(out, item, itemsize);
      out += itemsize;
      for (std::size_t d = array.ndim(); d-- > 0;) {
        if (++index[d] < array.shape()[d]) {
          item += array.strides()[d];
          break;
        }
        item -= static_cast<std::int64_t>(array.shape()[d] - 1) * array.strides()[d];
        index[d] = 0;
      }
    }
    bytes = copy->bytes();
    keep(std::move(copy));
    strided = false;
  }

  auto& root = writer_.root();
  begin(Op::array, strided ? 6 : (flags != 0 ? 4 : 3), marked);
  array.dtype().pack(root);
  root.unsigned_integer(writer_.add_payload(bytes));
  if (array.ndim() == 1) {
    root.unsigned_integer(array.shape()[0]);
  } else {
    root.array(array.ndim());
    for (std::uint64_t d : array.shape()) root.unsigned_integer(d);
  }
  if (strided || flags != 0) root.unsigned_integer(flags);
  if (strided) {
    root.array(array.ndim());
    for (std::int64_t s : array.strides()) root.integer(s);
    root.unsigned_integer(array.offset() - low);
  }
}

void Encoder::tree(Tree const& tree) {
  struct Open {
    Tree::Node const* node;
    std::size_t next;
  };
  std::unordered_map<Tree::Node const*, std::uint32_t> memo;      // marked nodes
  std::unordered_map<Tree::Node const*, bool> usable;             // and whether a REF may name them yet
  std::vector<Open> open;

  auto const write = [&](Tree const& at) {
    auto const* const handle = std::get_if<std::shared_ptr<Tree::Node>>(&at.value_);
    if (handle == nullptr) {
      std::visit(
          [&](auto const& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::same_as<T, std::monostate>) none();
            if constexpr (std::same_as<T, bool>) boolean(value);
            if constexpr (std::same_as<T, std::int64_t>) integer(value);
            if constexpr (std::same_as<T, std::uint64_t>) unsigned_integer(value);
            if constexpr (std::same_as<T, double>) real(value);
            if constexpr (std::same_as<T, std::complex<double>>) complex(value);
            if constexpr (std::same_as<T, std::string>) str(value);
          },
          at.value_);
      return;
    }
    Tree::Node const& node = **handle;
    if (auto const seen = memo.find(&node); seen != memo.end()) {
      expects(usable.at(&node), ErrorKind::unsupported, [&] { return cat("a ", to_string(node.op), " that contains itself"); });
      ref(seen->second);
      return;
    }
    bool const shared = handle->use_count() > 1;
    if (shared) {
      memo.emplace(&node, nmarked());
      usable.emplace(&node, node.dict || node.op == Op::list || node.op == Op::set || node.op == Op::object);
    }
    std::size_t const n = node.children.size();
    if (node.keeper) keep(node.keeper);
    if (node.dict) {
      begin_dict(n / 2, shared);
    } else {
      switch (node.op) {
        case Op::object: {
          std::vector<std::string_view> const keys(node.keys.begin(), node.keys.end());
          begin_object(node.text, keys, shared);
          break;
        }
        case Op::name: name(node.text, shared); break;
        case Op::adapted: begin_adapted(node.text, shared); break;
        case Op::array: array(node.array, shared); break;
        case Op::bytes:
          if (shared) {
            begin(Op::bytes, 1, true);
            writer_.root().unsigned_integer(writer_.add_payload(node.bytes));
          } else {
            bytes(node.bytes);
          }
          break;
        case Op::reduce: {
          begin(Op::reduce, 3, shared);
          writer_.root().unsigned_integer(name_index(node.text));
          writer_.root().array(n - 1);  // the last child is the state
          break;
        }
        default: begin(node.op, n, shared); break;
      }
    }
    if (n == 0) {
      if (shared) usable[&node] = true;
      return;
    }
    expects(open.size() < limits::depth, ErrorKind::unsupported, [&] { return cat("tree: nested deeper than ", limits::depth); });
    open.push_back({&node, 0});
  };

  write(tree);
  while (!open.empty()) {
    auto& [node, next] = open.back();
    if (next == node->children.size()) {
      if (auto const seen = usable.find(node); seen != usable.end()) seen->second = true;
      open.pop_back();
      continue;
    }
    write(node->children[next++]);
  }
}

Message Encoder::finish() {
  std::shared_ptr<void const> keeper;
  if (!keepers_.empty()) keeper = std::make_shared<std::vector<std::shared_ptr<void const>>>(std::move(keepers_));
  return make_message(writer_, limits_, *resource_, keeper);
}

Tree Tree::make(Op op, std::vector<Tree> children) {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->children = std::move(children);
  Tree tree;
  tree.value_ = std::move(node);
  return tree;
}

Tree::Tree(NdView array) {
  auto node = std::make_shared<Node>();
  node->op = Op::array;
  node->array = std::move(array);
  value_ = std::move(node);
}

Tree Tree::bytes(std::span<std::byte const> bytes, std::shared_ptr<void const> keeper) {
  Tree tree = make(Op::bytes, {});
  auto& node = *std::get<std::shared_ptr<Node>>(tree.value_);
  node.bytes = bytes;
  node.keeper = std::move(keeper);
  return tree;
}

Tree Tree::list(std::vector<Tree> items) { return make(Op::list, std::move(items)); }
Tree Tree::tuple(std::vector<Tree> items) { return make(Op::tuple, std::move(items)); }
Tree Tree::set(std::vector<Tree> items) { return make(Op::set, std::move(items)); }
Tree Tree::frozenset(std::vector<Tree> items) { return make(Op::frozenset, std::move(items)); }

Tree Tree::dict(std::vector<std::pair<Tree, Tree>> pairs) {
  Tree tree = make(Op::value, {});
  auto& node = *std::get<std::shared_ptr<Node>>(tree.value_);
  node.dict = true;
  node.children.reserve(2 * pairs.size());
  for (auto& [key, value] : pairs) {
    node.children.push_back(std::move(key));
    node.children.push_back(std::move(value));
  }
  return tree;
}

Tree Tree::slice(Tree start, Tree stop, Tree step) { return make(Op::slice, {std::move(start), std::move(stop), std::move(step)}); }
Tree Tree::range(std::int64_t start, std::int64_t stop, std::int64_t step) { return make(Op::range, {start, stop, step}); }

Tree Tree::object(std::string cls, std::vector<std::pair<std::string, Tree>> attributes) {
  Tree tree = make(Op::object, {});
  auto& node = *std::get<std::shared_ptr<Node>>(tree.value_);
  node.text = std::move(cls);
  for (auto& [key, value] : attributes) {
    node.keys.push_back(std::move(key));
    node.children.push_back(std::move(value));
  }
  return tree;
}

Tree Tree::name(std::string text) {
  Tree tree = make(Op::name, {});
  std::get<std::shared_ptr<Node>>(tree.value_)->text = std::move(text);
  return tree;
}

Tree Tree::reduce(std::string function, std::vector<Tree> args, Tree state) {
  args.push_back(std::move(state));
  Tree tree = make(Op::reduce, std::move(args));
  std::get<std::shared_ptr<Node>>(tree.value_)->text = std::move(function);
  return tree;
}

Tree Tree::adapted(std::string wire_name, Tree inner) {
  Tree tree = make(Op::adapted, {std::move(inner)});
  std::get<std::shared_ptr<Node>>(tree.value_)->text = std::move(wire_name);
  return tree;
}

void Tree::append(Tree item) {
  auto* const node = std::get_if<std::shared_ptr<Node>>(&value_);
  expects(node != nullptr && !(*node)->dict && ((*node)->op == Op::list || (*node)->op == Op::set), ErrorKind::failed, "append: not a list or set");
  (*node)->children.push_back(std::move(item));
}

void Tree::set(Tree key, Tree value) {
  auto* const node = std::get_if<std::shared_ptr<Node>>(&value_);
  expects(node != nullptr && (*node)->dict, ErrorKind::failed, "set: not a dict");
  (*node)->children.push_back(std::move(key));
  (*node)->children.push_back(std::move(value));
}

}  // namespace transload
