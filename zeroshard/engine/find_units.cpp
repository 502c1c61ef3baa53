#include "zeroshard/engine/find_units.h"

#include <algorithm>
#include <map>
#include <string>

namespace zeroshard {
namespace {

// Units around a module, outermost first, by index.
using Path = std::vector<std::size_t>;

struct Owned {
  NamedParameter parameter;
  Path path;
};

class Finder {
 public:
  Finder() {
    found_.push_back({.spec = {.name = "root", .parameters = {}, .has_call_point = false}});
  }

  void visit(torch::nn::Module& module, const std::string& name, Path path) {
    if (auto* unit = dynamic_cast<UnitBase*>(&module)) {
      // Registered twice: it encloses its own parameters wherever it is.
      if (std::ranges::find(found_, unit, &FoundUnit::unit) != found_.end()) return;
      path.push_back(found_.size());
      found_.push_back({.spec = {.name = name, .parameters = {}}, .unit = unit});
    }
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      own(name.empty() ? parameter.key() : name + "." + parameter.key(), parameter.value(), path);
    }
    for (const auto& child : module.named_children()) {
      visit(*child.value(), name.empty() ? child.key() : name + "." + child.key(), path);
    }
  }

  std::vector<FoundUnit> finish() {
    for (Owned& each : owned_) {
      const std::size_t unit = each.path.empty() ? 0 : each.path.back();
      found_[unit].spec.parameters.push_back(std::move(each.parameter));
    }
    return std::move(found_);
  }

 private:
  void own(const std::string& name, const at::Tensor& tensor, const Path& path) {
    const auto [known, is_new] = index_.try_emplace(tensor.unsafeGetTensorImpl(), owned_.size());
    if (is_new) {
      owned_.emplace_back(NamedParameter{.name = name, .tensor = tensor}, path);
      return;
    }
    Path& before = owned_[known->second].path;
    const auto [end, other] = std::ranges::mismatch(before, path);
    before.erase(end, before.end());
  }

  std::vector<FoundUnit> found_;
  std::vector<Owned> owned_;
  std::map<const c10::TensorImpl*, std::size_t> index_;
};

}  // namespace

std::vector<FoundUnit> find_units(torch::nn::Module& model) {
  Finder finder;
  finder.visit(model, "", {});
  return finder.finish();
}

}  // namespace zeroshard
