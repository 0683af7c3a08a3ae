#pragma once

#include <gtest/gtest.h>

#include "graph/graph.h"

namespace motley {

// Every field but `consumers`, which finish() derives.
inline void expect_equal(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.min_batch, b.min_batch);
  EXPECT_EQ(a.max_batch, b.max_batch);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.optimizer.kind, b.optimizer.kind);
  EXPECT_EQ(a.optimizer.learning_rate, b.optimizer.learning_rate);
  EXPECT_EQ(a.optimizer.momentum, b.optimizer.momentum);
  EXPECT_EQ(a.optimizer.beta1, b.optimizer.beta1);
  EXPECT_EQ(a.optimizer.beta2, b.optimizer.beta2);
  EXPECT_EQ(a.optimizer.epsilon, b.optimizer.epsilon);
  EXPECT_EQ(a.optimizer.weight_decay, b.optimizer.weight_decay);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor& x = a.tensors[i];
    const Tensor& y = b.tensors[i];
    EXPECT_TRUE(x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.role == y.role &&
                x.layout == y.layout && x.producer == y.producer && x.alias_of == y.alias_of &&
                x.gradient_of == y.gradient_of && x.requires_gradient == y.requires_gradient &&
                x.state_of == y.state_of)
        << y.name;
  }
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const Op& x = a.ops[i];
    const Op& y = b.ops[i];
    EXPECT_TRUE(x.kind == y.kind && x.name == y.name && x.target == y.target && x.inputs == y.inputs &&
                x.outputs == y.outputs && x.writes == y.writes && x.completes == y.completes &&
                x.forward == y.forward && x.gradient_outputs == y.gradient_outputs &&
                x.gradient_inputs == y.gradient_inputs && x.group == y.group && x.is_view == y.is_view &&
                x.random == y.random && x.source == y.source && x.module == y.module)
        << y.name;
    ASSERT_EQ(x.arguments.size(), y.arguments.size()) << y.name;
    for (std::size_t k = 0; k < x.arguments.size(); ++k) {
      EXPECT_TRUE(x.arguments[k].name == y.arguments[k].name && x.arguments[k].value == y.arguments[k].value)
          << y.name << " " << y.arguments[k].name;
    }
  }
  ASSERT_EQ(a.groups.size(), b.groups.size());
  for (std::size_t i = 0; i < a.groups.size(); ++i) {
    EXPECT_EQ(a.groups[i].name, b.groups[i].name);
    EXPECT_EQ(a.groups[i].ops, b.groups[i].ops);
    EXPECT_EQ(a.groups[i].parameters, b.groups[i].parameters);
  }
}

}  // namespace motley
