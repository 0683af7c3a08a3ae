// How fast one device trains through motley's ops: worker_bench MODEL.pt2 DATA.safetensors [--seconds N]. DATA holds
// "input.NAME" for each input of the model. Prints one JSON object; bench/worker_eager.py prints the same for PyTorch.

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/one_device.h"
#include "graph/pt2_file.h"
#include "graph/training_graph.h"
#include "runtime/safetensors.h"

namespace motley {
namespace {

// CPU time of all threads: what else runs on the machine does not count.
double process_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void run(const std::string& model, const std::string& data, double seconds) {
  const Graph graph = load_training_graph(model, {});
  const SafetensorsFile inputs(data);
  const std::unique_ptr<Executor> executor = Executor::open("cpu", graph);
  const NamedTensor* first = inputs.find("input." + graph.tensors[graph.inputs.at(0)].name);
  if (first == nullptr) throw Error(ErrorKind::kInvalidInput, data + ": no input." + graph.tensors[0].name);
  const std::int64_t batch = first->shape.at(0);
  OneDevice device(graph, *executor, batch);
  load_state(graph, Pt2File::open(model), *executor, device);
  load_inputs(graph, inputs, *executor, device);

  std::vector<double> times;
  std::vector<float> losses;
  const double begin = process_seconds();
  while (times.size() < 3 || process_seconds() - begin < seconds) {
    const double start = process_seconds();
    device.iterate();
    times.push_back(process_seconds() - start);
    losses.push_back(elements<float>(executor->to_host(device.value(graph.loss)))[0]);
  }
  times.erase(times.begin());  // the first one makes what the others reuse
  std::sort(times.begin(), times.end());
  const nlohmann::json result = {{"samples_per_second", static_cast<double>(batch) / times[times.size() / 2]},
                                 {"best_samples_per_second", static_cast<double>(batch) / times[0]},
                                 {"iterations", times.size()},
                                 {"losses", {losses[0], losses[1], losses[2]}},
                                 {"peak_memory_bytes", executor->memory().peak.value}};
  std::cout << result.dump() << "\n";
}

}  // namespace
}  // namespace motley

int main(int argc, char** argv) {
  CLI::App app("Measures training on one device: samples per second of CPU time, one thread.");
  std::string model;
  std::string data;
  double seconds = 10;
  app.add_option("model", model, "the model file, with weights")->required();
  app.add_option("data", data, "one batch of inputs, as safetensors")->required();
  app.add_option("--seconds", seconds, "how long to measure");
  CLI11_PARSE(app, argc, argv);
  try {
    motley::run(model, data, seconds);
  } catch (const motley::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
