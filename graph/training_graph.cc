#include "graph/training_graph.h"

#include <utility>

#include "graph/autodiff.h"
#include "graph/batch_analysis.h"
#include "graph/clustering.h"
#include "graph/fingerprint.h"
#include "graph/import.h"
#include "graph/loss_rewrite.h"
#include "graph/pt2_file.h"

namespace motley {

Graph make_training_graph(Graph forward, const TrainingOptions& options) {
  Graph graph = std::move(forward);
  graph.finish();
  rewrite_mean_losses(graph);
  analyze_batch(graph);
  differentiate(graph, options.optimizer);
  cluster(graph, options.max_groups);
  graph.finish();
  graph.fingerprint = fingerprint_of(graph);
  return graph;
}

Graph load_training_graph(const std::string& path, const TrainingOptions& options) {
  return make_training_graph(import_pt2(Pt2File::open(path)), options);
}

}  // namespace motley
