#include <optional>
#include <string>

#include "graph/op_knowledge.h"

namespace motley {

const Argument* find_argument(const Op& op, std::string_view name) {
  for (const Argument& argument : op.arguments) {
    if (argument.name == name) return &argument;
  }
  return nullptr;
}

std::int32_t input_place(const Op& op, std::string_view argument) {
  const Argument* found = find_argument(op, argument);
  if (found == nullptr) return kNone;
  const auto* input = std::get_if<InputRef>(&found->value);
  return input == nullptr ? kNone : input->index;
}

std::int64_t integer_argument(const Op& op, std::string_view name, std::int64_t otherwise) {
  const Argument* found = find_argument(op, name);
  if (found == nullptr) return otherwise;
  const auto* size = std::get_if<BatchExpr>(&found->value);
  return size != nullptr && size->is_constant() ? size->at(1) : otherwise;
}

bool flag_argument(const Op& op, std::string_view name, bool otherwise) {
  const Argument* found = find_argument(op, name);
  if (found == nullptr) return otherwise;
  const auto* flag = std::get_if<bool>(&found->value);
  return flag == nullptr ? otherwise : *flag;
}

}  // namespace motley
