// A LibTorch training that records itself: record_torch FOLDER [RATE [WEIGHTS]]; FOLDER -: without recording

#include <exception>
#include <iostream>
#include <optional>

#include <lockstep/torch.h>

namespace {

void train(const std::string& folder, double rate, const char* weights) {
  torch::manual_seed(7);
  torch::nn::Sequential net(torch::nn::Linear(20, 32), torch::nn::ReLU(), torch::nn::BatchNorm1d(32),
                            torch::nn::Linear(32, 4));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(rate).momentum(0.9));
  const auto inputs = torch::randn({64, 20}), targets = torch::randint(0, 4, {64});

  lockstep_recorder_config config = {};
  config.size = sizeof config;
  config.folder = folder.c_str();
  config.world_size = 1;
  std::optional<lockstep::TorchRecorder> recorder;
  if (folder != "-") recorder.emplace(config, *net, optimizer);

  for (int step = 0; step < 20; ++step) {
    const auto ids = torch::randperm(64).slice(0, 0, 8);
    const auto x = inputs.index_select(0, ids), y = targets.index_select(0, ids);
    if (recorder) recorder->input({{"x", x}, {"y", y}}, {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + 8});
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(net->forward(x), y);
    loss.backward();
    if (recorder) recorder->gradients(loss);
    optimizer.step();
    if (recorder) recorder->updated();
  }
  if (recorder) recorder->close();
  if (weights != nullptr) torch::save(net, weights);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? argv[1] : "run", argc > 2 ? std::stod(argv[2]) : 0.1, argc > 3 ? argv[3] : nullptr);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "record_torch: " << error.what() << "\n";
    return 1;
  }
}
