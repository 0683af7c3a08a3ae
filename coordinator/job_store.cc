#include "coordinator/job_store.h"

#include "base/sqlite.h"

namespace motley {
namespace {

using sqlite::Statement;

constexpr const char* kTables = R"(
  CREATE TABLE jobs (
    job INTEGER PRIMARY KEY AUTOINCREMENT,
    spec BLOB NOT NULL,
    state INTEGER NOT NULL,
    message TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    submitted REAL NOT NULL
  );
  CREATE TABLE nodes (name TEXT PRIMARY KEY, description BLOB NOT NULL, heard REAL NOT NULL);
)";
constexpr sqlite::Format kFormat{"coordinator's store", 0x6d6f7463, 1, kTables};  // "motc"

}  // namespace

JobStore::JobStore(const std::filesystem::path& path)
    : database_(std::make_unique<sqlite::Database>(path.string(), kFormat)) {
  Statement stopped(*database_, "SELECT spec FROM jobs WHERE state < ?");
  stopped.bind(std::int64_t{proto::STATE_DONE});
  while (stopped.step()) {
    proto::JobSpec spec;
    spec.ParseFromString(stopped.text(0));
    if (!spec.output().empty()) outputs_.push_back(spec.output());
  }
  Statement(*database_, "UPDATE jobs SET state = ?, message = ? WHERE state < ?")
      .bind(std::int64_t{proto::STATE_FAILED})
      .bind("the coordinator stopped while the job was under way")
      .bind(std::int64_t{proto::STATE_DONE})
      .run();
}

JobStore::~JobStore() = default;

std::int64_t JobStore::add(const proto::JobSpec& spec, double submitted) {
  const std::scoped_lock lock(mutex_);
  Statement(*database_, "INSERT INTO jobs (spec, state, message, iteration, submitted) VALUES (?, ?, '', 0, ?)")
      .bind_bytes(spec.SerializeAsString())
      .bind(std::int64_t{proto::STATE_QUEUED})
      .bind(submitted)
      .run();
  return database_->last_insert_id();
}

void JobStore::set_state(std::int64_t job, proto::JobState state, const std::string& message) {
  const std::scoped_lock lock(mutex_);
  Statement(*database_, "UPDATE jobs SET state = ?, message = ? WHERE job = ?")
      .bind(std::int64_t{state})
      .bind(message)
      .bind(job)
      .run();
}

void JobStore::set_iteration(std::int64_t job, std::int64_t iteration) {
  const std::scoped_lock lock(mutex_);
  Statement(*database_, "UPDATE jobs SET iteration = ? WHERE job = ?").bind(iteration).bind(job).run();
}

std::vector<proto::JobStatus> JobStore::jobs() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::JobStatus> result;
  Statement statement(*database_, "SELECT job, spec, state, message, iteration, submitted FROM jobs ORDER BY job");
  while (statement.step()) {
    proto::JobSpec spec;
    spec.ParseFromString(statement.text(1));
    proto::JobStatus& status = result.emplace_back();
    status.set_job(statement.integer(0));
    status.set_state(static_cast<proto::JobState>(statement.integer(2)));
    status.set_kind(spec.kind());
    status.set_model(spec.model_name());
    status.set_message(statement.text(3));
    status.set_iteration(statement.integer(4));
    status.set_iterations(spec.iterations());
    status.set_submitted(statement.real(5));
  }
  return result;
}

void JobStore::remember(const proto::NodeDescription& node, double heard) {
  const std::scoped_lock lock(mutex_);
  Statement(*database_, "INSERT OR REPLACE INTO nodes (name, description, heard) VALUES (?, ?, ?)")
      .bind(node.name())
      .bind_bytes(node.SerializeAsString())
      .bind(heard)
      .run();
}

std::vector<proto::NodeDescription> JobStore::nodes() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::NodeDescription> result;
  Statement statement(*database_, "SELECT description FROM nodes ORDER BY name");
  while (statement.step()) result.emplace_back().ParseFromString(statement.text(0));
  return result;
}

}  // namespace motley
