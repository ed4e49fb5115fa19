#include "harness/train/files/unpickler.h"

#include <algorithm>
#include <bit>

#include "harness/base/error.h"
#include "harness/train/files/pickled_types.h"

namespace lockstep::train {
namespace {

/// Opcodes of protocols 2 to 5. *Source*: Python 3.11, Lib/pickletools.py.
enum Opcode : std::uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinString = 'T',
  kShortBinString = 'U',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8E,
  kByteArray8 = 0x96,
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
  kEmptySet = 0x8F,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kNewObj = 0x81,
  kNewObjEx = 0x92,
  kBuild = 'b',
  kBinPersId = 'Q',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
};

constexpr unsigned kNewestProtocol = 5;

/// Values that wait for their container. Pickles write long lists in parts.
constexpr std::size_t kMostValues = 1 << 16;

/// Open containers. Those of a state dict are a handful.
constexpr std::size_t kMostMarks = 256;

/// Longest name of a module, or of what it has.
constexpr std::size_t kLongestGlobal = 256;

/// A pickle of tensors has fewer values and objects for each byte: about one in three, and one in eight. So many more
/// are allowed, for numbers beside them.
constexpr std::size_t kMoreValues = 1 << 14, kMoreObjects = 1 << 12, kBytesOfValue = 2, kBytesOfObject = 6;

constexpr PickledOther kNumber{.what = "a number", .is_plain = true}, kBytes{.what = "bytes", .is_plain = true},
    kSet{.what = "a set", .is_plain = true}, kObject{.what = "an object"},
    kLazyTensor{.what = "a lazily negated or conjugated tensor"};

/// Makes room for so many more items, and for little that may never come.
template <class Item>
void make_room(std::vector<Item>& items, std::size_t more) {
  if (items.capacity() - items.size() < more) items.reserve(items.size() + std::max(more, items.size() / 4));
}

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  Unpickled run() {
    while (true) {
      const auto opcode = static_cast<std::uint8_t>(take(1)[0]);
      if (opcode == kStop) break;
      execute(opcode);
    }
    result_.value = pop();
    return std::move(result_);
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

  /// More than is read of any file: it need not be damaged.
  [[noreturn]] void too_many(const char* what) const {
    throw InputError({.what = std::string("a file of torch.save holds too many ") + what + " beside its tensors",
                      .where = origin_ + ", data.pkl at offset " + std::to_string(at_),
                      .next = "save the weights alone, or as safetensors"});
  }

  std::string_view take(std::uint64_t count) {
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

  std::string_view line() {
    const std::size_t length = bytes_.substr(at_, kLongestGlobal).find('\n');
    if (length == std::string_view::npos) damaged("a name does not end");
    return take(length + 1).substr(0, length);
  }

  Pickled pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) damaged("a value is missing");
    const Pickled value = stack_.back();
    stack_.pop_back();
    return value;
  }

  /// Everything above the last mark.
  std::vector<Pickled> pop_marked() {
    if (marks_.empty()) damaged("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Pickled> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  template <class T>
  T as(const Pickled& value, const char* expected) const {
    if (!std::holds_alternative<T>(value)) damaged(std::string("not ") + expected);
    return std::get<T>(value);
  }

  template <class T>
  T popped(const char* expected) {
    return as<T>(pop(), expected);
  }

  template <class T>
  T top(const char* expected) const {
    if (stack_.empty()) damaged(std::string("not ") + expected);
    return as<T>(stack_.back(), expected);
  }

  void push(Pickled value) {
    if (stack_.size() >= kMostValues || ++values_ > kMoreValues + bytes_.size() / kBytesOfValue) too_many("values");
    stack_.push_back(value);
  }

  /// Keeps an object for as long as the result lives, and pushes it.
  template <class Object>
  void push_object(std::deque<Object>& kept, Object object) {
    if (++objects_ > kMoreObjects + bytes_.size() / kBytesOfObject) too_many("objects");
    kept.push_back(std::move(object));
    push(&kept.back());
  }

  void push_list(std::vector<Pickled> items) { push_object(result_.lists, {std::move(items)}); }

  void push_last(std::size_t count) {
    std::vector<Pickled> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }

  void push_mark() {
    if (marks_.size() >= kMostMarks) damaged("containers are nested too deeply");
    marks_.push_back(stack_.size());
  }

  /// Values are numbered from 0 on.
  void put(std::uint64_t index) {
    if (stack_.empty()) damaged("a value is missing");
    if (index > memo_.size()) damaged("value " + std::to_string(index) + " is kept before those with lower numbers");
    if (index == memo_.size()) memo_.emplace_back();
    memo_[index] = stack_.back();
  }

  void get(std::uint64_t index) {
    if (index >= memo_.size()) damaged("value " + std::to_string(index) + " is used before it is there");
    push(memo_[index]);
  }

  void execute(std::uint8_t opcode) {
    switch (opcode) {
      case kProto:
        if (const auto version = unsigned_of(1); version > kNewestProtocol)
          refuse("pickle protocol " + std::to_string(version));
        return;
      case kFrame:
        unsigned_of(8);
        return;
      case kMark:
        return push_mark();
      case kPop:
        pop();
        return;
      case kPopMark:
        pop_marked();
        return;
      case kDup: {
        const Pickled value = pop();
        push(value);
        return push(value);
      }
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
        return push_long(unsigned_of(1));
      case kLong4:
        return push_long(unsigned_of(4));
      case kBinFloat:
        return push_float();
      case kShortBinUnicode:
      case kShortBinString:
        return push_object(result_.strings, take(unsigned_of(1)));
      case kBinUnicode:
      case kBinString:
        return push_object(result_.strings, take(unsigned_of(4)));
      case kBinUnicode8:
        return push_object(result_.strings, take(unsigned_of(8)));
      case kShortBinBytes:
        return push_bytes(unsigned_of(1));
      case kBinBytes:
        return push_bytes(unsigned_of(4));
      case kBinBytes8:
      case kByteArray8:
        return push_bytes(unsigned_of(8));
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
        return push_object(result_.dicts, {});
      case kAppend:
        return append({pop()});
      case kAppends:
        return append(pop_marked());
      case kSetItem: {
        const Pickled value = pop(), key = pop();
        return set_items({key, value});
      }
      case kSetItems:
        return set_items(pop_marked());
      case kEmptySet:
        return push(&kSet);
      case kAddItems:
        pop_marked();
        top<const PickledOther*>("a set");
        return;
      case kFrozenSet:
        pop_marked();
        return push(&kSet);
      case kGlobal: {
        const std::string_view module = line();
        return push_global({.module = module, .name = line()});
      }
      case kStackGlobal: {
        const auto* const name = popped<const std::string_view*>("a name");
        return push_global({.module = *popped<const std::string_view*>("a module"), .name = *name});
      }
      case kReduce: {
        const Pickled arguments = pop(), function = pop();
        return call(function, as<PickledList*>(arguments, "a tuple of arguments")->items);
      }
      case kNewObj: {
        const Pickled arguments = pop(), type = pop();
        return call(type, as<PickledList*>(arguments, "a tuple of arguments")->items);
      }
      case kNewObjEx: {
        const Pickled named = pop(), arguments = pop(), type = pop();
        as<PickledDict*>(named, "a dict of arguments");
        return call(type, as<PickledList*>(arguments, "a tuple of arguments")->items);
      }
      case kBuild:
        pop();  // attributes, such as a state dict's _metadata
        require_built();
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
      case kMemoize:
        if (memo_.size() >= values_) damaged("more values are kept than there are");
        return put(memo_.size());
      default:
        damaged("unknown opcode " + std::to_string(opcode));
    }
  }

  void push_long(std::uint64_t count) {
    if (count > 8) {
      take(count);
      return push(&kNumber);
    }
    std::uint64_t value = unsigned_of(count);
    const std::size_t bits = 8 * count;
    if (count > 0 && count < 8 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
    push(static_cast<std::int64_t>(value));
  }

  void push_bytes(std::uint64_t count) {
    take(count);
    push(&kBytes);
  }

  void push_float() {
    std::uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<std::uint8_t>(c);
    push(std::bit_cast<double>(bits));
  }

  bool is_other_on_top() const { return !stack_.empty() && std::holds_alternative<const PickledOther*>(stack_.back()); }

  /// What may have attributes: they are dropped.
  void require_built() const {
    if (is_other_on_top()) return;
    if (!stack_.empty() && std::holds_alternative<const TensorReference*>(stack_.back())) return;
    top<PickledDict*>("an object with attributes");
  }

  void append(const std::vector<Pickled>& values) {
    if (is_other_on_top()) return;
    std::vector<Pickled>& items = top<PickledList*>("a list")->items;
    make_room(items, values.size());
    items.insert(items.end(), values.begin(), values.end());
  }

  void set_items(const std::vector<Pickled>& values) {
    if (values.size() % 2 != 0) damaged("a key without a value");
    if (is_other_on_top()) return;
    std::vector<std::pair<Pickled, Pickled>>& items = top<PickledDict*>("a dict")->items;
    make_room(items, values.size() / 2);
    for (std::size_t i = 0; i < values.size(); i += 2) items.emplace_back(values[i], values[i + 1]);
  }

  void push_global(const PickledGlobal& global) {
    if (global.module.size() > kLongestGlobal || global.name.size() > kLongestGlobal) damaged("a name does not end");
    if (is_blocked(global)) refuse(name_of(global));
    push_object(result_.globals, global);
  }

  /// What a call would return. Nothing is called: tensors and containers are known, everything else has a name only.
  void call(const Pickled& callee, const std::vector<Pickled>& arguments) {
    if (std::holds_alternative<const PickledOther*>(callee)) return push(&kObject);
    const auto* const global = as<const PickledGlobal*>(callee, "a function");
    const std::string function = name_of(*global);
    if (function == "collections.OrderedDict" && arguments.empty()) return push_object(result_.dicts, {});
    if (function == "collections.defaultdict" && arguments.size() <= 1) return push_object(result_.dicts, {});
    if (function == "collections.Counter" && arguments.empty()) return push_object(result_.dicts, {});
    if (function == "collections.Counter" && arguments.size() == 1)
      return push(as<PickledDict*>(arguments[0], "a dict"));
    if (function == "torch.Size" && arguments.size() == 1) return push(as<PickledList*>(arguments[0], "a tuple"));
    if (function == "torch._utils._rebuild_parameter") return push_parameter(function, arguments, 3);
    if (function == "torch._utils._rebuild_parameter_with_state") return push_parameter(function, arguments, 4);
    if (function == "torch._utils._rebuild_tensor_v2") return push_tensor(function, arguments);
    if (function == "torch._tensor._rebuild_from_type_v2" && is_plain_tensor(arguments))
      return push_tensor("torch._utils._rebuild_tensor_v2", std::get<PickledList*>(arguments[2])->items);
    push_object(result_.others, other_built_by(*global));
  }

  /// Whether a tensor with attributes is built by _rebuild_tensor_v2, and is of no class of its own.
  bool is_plain_tensor(const std::vector<Pickled>& arguments) const {
    if (arguments.size() != 4 || !std::holds_alternative<PickledList*>(arguments[2])) return false;
    const auto named = [&](std::size_t i) {
      const auto* const global = std::get_if<const PickledGlobal*>(&arguments[i]);
      return global == nullptr ? std::string() : name_of(**global);
    };
    return named(0) == "torch._utils._rebuild_tensor_v2" &&
           (named(1) == "torch.Tensor" || named(1) == "torch.nn.parameter.Parameter");
  }

  void require_arguments(const std::string& function, const std::vector<Pickled>& arguments, bool fit) const {
    if (!fit) refuse("a call of " + function + " with " + std::to_string(arguments.size()) + " arguments");
  }

  void push_parameter(const std::string& function, const std::vector<Pickled>& arguments, std::size_t count) {
    require_arguments(function, arguments, arguments.size() == count);
    if (std::holds_alternative<const PickledOther*>(arguments[0])) return push(arguments[0]);
    push(as<const TensorReference*>(arguments[0], "a tensor"));
  }

  void push_tensor(const std::string& function, const std::vector<Pickled>& arguments) {
    require_arguments(function, arguments, arguments.size() == 6 || arguments.size() == 7);
    // What a seventh argument says, such as a negation that is still to be done, changes the elements.
    if (arguments.size() == 7 && !std::holds_alternative<std::monostate>(arguments[6]) &&
        !as<PickledDict*>(arguments[6], "a dict")->items.empty())
      return push(&kLazyTensor);
    push_object(result_.tensors, {.storage = as<const StorageReference*>(arguments[0], "a storage"),
                                  .offset = as<std::int64_t>(arguments[1], "an integer"),
                                  .sizes = as<PickledList*>(arguments[2], "a tuple"),
                                  .strides = as<PickledList*>(arguments[3], "a tuple")});
  }

  void push_storage() {
    const std::vector<Pickled>& id = popped<PickledList*>("a tuple")->items;
    if (id.size() != 5 || *as<const std::string_view*>(id[0], "a word") != "storage")
      damaged("not a reference to a storage");
    push_object(result_.storages, {.type = as<const PickledGlobal*>(id[1], "a storage type"),
                                   .key = *as<const std::string_view*>(id[2], "a name"),
                                   .elements = as<std::int64_t>(id[4], "an integer")});
  }

  std::string_view bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::deque<Pickled> stack_;
  std::vector<std::size_t> marks_;
  std::deque<Pickled> memo_;
  Unpickled result_;
  std::size_t values_ = 0, objects_ = 0;
};

}  // namespace

std::string name_of(const PickledGlobal& global) { return std::string(global.module) + "." + std::string(global.name); }

std::string name_of(const PickledOther& other) {
  return other.type == nullptr ? std::string(other.what) : name_of(*other.type);
}

Unpickled unpickle(std::string_view bytes, const std::string& origin) { return Unpickler(bytes, origin).run(); }

}  // namespace lockstep::train
