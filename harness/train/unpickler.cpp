#include "harness/train/unpickler.h"

#include <algorithm>
#include <bit>
#include <map>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

/// Opcodes that torch.save uses. *Source*: Python 3.11, Lib/pickletools.py.
enum Opcode : std::uint8_t {
  kProto = 0x80,
  kStop = '.',
  kMark = '(',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8A,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kBinPersId = 'Q',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
};

using Storage = std::shared_ptr<StorageReference>;
using Tensor = std::shared_ptr<TensorReference>;
using List = std::shared_ptr<PickledList>;
using Dict = std::shared_ptr<PickledDict>;

/// A state dict of more entries than this is none.
constexpr std::size_t kMostValues = 1 << 16;

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  Pickled run() {
    while (true) {
      const auto opcode = static_cast<std::uint8_t>(take(1)[0]);
      if (opcode == kStop) return pop();
      execute(opcode);
    }
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw DamagedFile({.what = "a file of torch.save is damaged: " + what,
                       .where = origin_ + ", data.pkl at offset " + std::to_string(at_)});
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError({.what = "a file of torch.save holds more than tensors and containers",
                      .where = origin_ + ", data.pkl at offset " + std::to_string(at_),
                      .actual = what,
                      .next = "save a plain state dict, or safetensors"});
  }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) damaged("it ends early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  std::uint64_t unsigned_of(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view raw = take(count);
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(raw[i]);
    return value;
  }

  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) damaged("a name does not end");
    const std::string text(take(end - at_));
    take(1);
    return text;
  }

  Pickled pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) damaged("a value is missing");
    Pickled value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }

  /// Everything above the last mark.
  std::vector<Pickled> pop_marked() {
    if (marks_.empty()) damaged("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Pickled> values(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  template <class T>
  T popped(const char* expected) {
    Pickled value = pop();
    if (!std::holds_alternative<T>(value)) damaged(std::string("not ") + expected);
    return std::get<T>(std::move(value));
  }

  template <class T>
  const T& as(const Pickled& value, const char* expected) const {
    if (!std::holds_alternative<T>(value)) damaged(std::string("not ") + expected);
    return std::get<T>(value);
  }

  template <class T>
  T& top(const char* expected) {
    if (stack_.empty() || !std::holds_alternative<T>(stack_.back())) damaged(std::string("not ") + expected);
    return std::get<T>(stack_.back());
  }

  void push(Pickled value) {
    if (stack_.size() >= kMostValues) damaged("too many values");
    stack_.push_back(std::move(value));
  }
  void push_list(std::vector<Pickled> items) { push(std::make_shared<PickledList>(PickledList{std::move(items)})); }

  void push_last(std::size_t count) {
    std::vector<Pickled> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }

  void put(std::uint64_t index) {
    if (stack_.empty()) damaged("a value is missing");
    memo_[index] = stack_.back();
  }

  void get(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) damaged("value " + std::to_string(index) + " is used before it is there");
    push(found->second);
  }

  void execute(std::uint8_t opcode) {
    switch (opcode) {
      case kProto:
        if (const auto version = unsigned_of(1); version > 2) refuse("pickle protocol " + std::to_string(version));
        return;
      case kMark:
        return marks_.push_back(stack_.size());
      case kNone:
        return push(std::monostate());
      case kNewTrue:
        return push(true);
      case kNewFalse:
        return push(false);
      case kBinInt:
        return push(static_cast<std::int64_t>(static_cast<std::int32_t>(unsigned_of(4))));
      case kBinInt1:
        return push(static_cast<std::int64_t>(unsigned_of(1)));
      case kBinInt2:
        return push(static_cast<std::int64_t>(unsigned_of(2)));
      case kLong1:
        return push_long();
      case kBinFloat:
        return push_float();
      case kBinUnicode:
        return push(std::string(take(unsigned_of(4))));
      case kEmptyList:
      case kEmptyTuple:
        return push_list({});
      case kTuple:
        return push_list(pop_marked());
      case kTuple1:
        return push_last(1);
      case kTuple2:
        return push_last(2);
      case kTuple3:
        return push_last(3);
      case kEmptyDict:
        return push(std::make_shared<PickledDict>());
      case kAppend: {
        Pickled item = pop();
        return append_to(top<List>("a list"), std::move(item));
      }
      case kAppends:
        return append(pop_marked());
      case kSetItem: {
        Pickled value = pop(), key = pop();
        return set(top<Dict>("a dict"), std::move(key), std::move(value));
      }
      case kSetItems:
        return set_items(pop_marked());
      case kGlobal: {
        const std::string module = line();
        return push_global(module + "." + line());
      }
      case kReduce:
        return reduce();
      case kBuild:
        pop();  // attributes, such as a state dict's _metadata
        top<Dict>("a dict with attributes");
        return;
      case kBinPersId:
        return push_storage();
      case kBinGet:
        return get(unsigned_of(1));
      case kLongBinGet:
        return get(unsigned_of(4));
      case kBinPut:
        return put(unsigned_of(1));
      case kLongBinPut:
        return put(unsigned_of(4));
      default:
        damaged("unknown opcode " + std::to_string(opcode));
    }
  }

  void push_long() {
    const std::size_t count = unsigned_of(1);
    if (count > 8) refuse("an integer of " + std::to_string(count) + " bytes");
    std::uint64_t value = unsigned_of(count);
    const std::size_t bits = 8 * count;
    if (count > 0 && count < 8 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
    push(static_cast<std::int64_t>(value));
  }

  void push_float() {
    std::uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<std::uint8_t>(c);
    push(std::bit_cast<double>(bits));
  }

  void append_to(const List& list, Pickled item) {
    if (list->items.size() >= kMostValues) damaged("too many values in a list");
    list->items.push_back(std::move(item));
  }

  void append(std::vector<Pickled> values) {
    const List list = top<List>("a list");
    for (Pickled& value : values) append_to(list, std::move(value));
  }

  void set(const Dict& dict, Pickled key, Pickled value) {
    if (dict->items.size() >= kMostValues) damaged("too many values in a dict");
    dict->items.emplace_back(std::move(key), std::move(value));
  }

  void set_items(std::vector<Pickled> values) {
    if (values.size() % 2 != 0) damaged("a key without a value");
    const Dict dict = top<Dict>("a dict");
    for (std::size_t i = 0; i < values.size(); i += 2) set(dict, std::move(values[i]), std::move(values[i + 1]));
  }

  void push_global(const std::string& name) {
    const bool known = name == "torch._utils._rebuild_tensor_v2" || name == "torch._utils._rebuild_parameter" ||
                       name == "collections.OrderedDict" || (name.starts_with("torch.") && name.ends_with("Storage"));
    if (!known) refuse(name);
    push(PickledGlobal{name});
  }

  void reduce() {
    const List arguments = popped<List>("a tuple of arguments");
    const PickledGlobal function = popped<PickledGlobal>("a function");
    if (function.name == "collections.OrderedDict" && arguments->items.empty())
      return push(std::make_shared<PickledDict>());
    if (function.name == "torch._utils._rebuild_parameter" && arguments->items.size() == 3)
      return push(as<Tensor>(arguments->items[0], "a tensor"));
    if (function.name == "torch._utils._rebuild_tensor_v2" && arguments->items.size() >= 6)
      return push_tensor(arguments->items);
    refuse("a call of " + function.name + " with " + std::to_string(arguments->items.size()) + " arguments");
  }

  std::vector<std::int64_t> integers(const Pickled& value) const {
    std::vector<std::int64_t> result;
    for (const Pickled& item : as<List>(value, "a tuple")->items)
      result.push_back(as<std::int64_t>(item, "an integer"));
    return result;
  }

  void push_tensor(const std::vector<Pickled>& arguments) {
    TensorReference tensor{.storage = *as<Storage>(arguments[0], "a storage"),
                           .offset = as<std::int64_t>(arguments[1], "an integer"),
                           .sizes = integers(arguments[2]),
                           .strides = integers(arguments[3])};
    if (tensor.sizes.size() != tensor.strides.size()) damaged("a tensor has other sizes than strides");
    push(std::make_shared<TensorReference>(std::move(tensor)));
  }

  void push_storage() {
    const std::vector<Pickled> id = popped<List>("a tuple")->items;
    if (id.size() != 5 || as<std::string>(id[0], "a word") != "storage") damaged("not a reference to a storage");
    push(std::make_shared<StorageReference>(StorageReference{.type = as<PickledGlobal>(id[1], "a storage type").name,
                                                             .key = as<std::string>(id[2], "a name"),
                                                             .elements = as<std::int64_t>(id[4], "an integer")}));
  }

  std::string_view bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::vector<Pickled> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Pickled> memo_;
};

}  // namespace

Pickled unpickle(std::string_view bytes, const std::string& origin) { return Unpickler(bytes, origin).run(); }

}  // namespace lockstep::train
