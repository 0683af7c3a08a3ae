#include "coordinator/job_store.h"

#include <sqlite3.h>

#include "base/error.h"

namespace motley {
namespace {

constexpr int kVersion = 1;
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
  PRAGMA user_version = 1;
)";

[[noreturn]] void fail(const std::string& path, sqlite3* database) {
  throw Error(ErrorKind::kUnavailable, path + ": " + sqlite3_errmsg(database));
}

}  // namespace

// One prepared statement; parameters are bound in order.
class JobStore::Statement {
 public:
  Statement(const JobStore& store, const char* sql) : store_(store) {
    check(sqlite3_prepare_v2(store.database_, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;

  Statement& bind(std::int64_t number) { return check(sqlite3_bind_int64(statement_, ++bound_, number)); }
  Statement& bind(double number) { return check(sqlite3_bind_double(statement_, ++bound_, number)); }
  Statement& bind_text(const std::string& text) {
    return check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  }
  Statement& bind_bytes(const std::string& bytes) {
    return check(sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT));
  }
  bool step() {
    const int result = sqlite3_step(statement_);
    if (result != SQLITE_ROW) check(result == SQLITE_DONE ? SQLITE_OK : result);
    return result == SQLITE_ROW;
  }
  std::int64_t integer(int column) { return sqlite3_column_int64(statement_, column); }
  double real(int column) { return sqlite3_column_double(statement_, column); }
  std::string bytes(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string()
                           : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
  }

 private:
  Statement& check(int result) {
    if (result != SQLITE_OK) fail(store_.path_, store_.database_);
    return *this;
  }
  const JobStore& store_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

JobStore::JobStore(const std::filesystem::path& path) : path_(path.string()) {
  if (sqlite3_open(path_.c_str(), &database_) != SQLITE_OK) {
    const std::string why = sqlite3_errmsg(database_);
    sqlite3_close(database_);
    throw Error(ErrorKind::kUnavailable, path_ + ": cannot be opened (" + why + ")");
  }
  try {
    sqlite3_busy_timeout(database_, 5000);
    execute("PRAGMA journal_mode = WAL");
    std::int64_t version = 0;
    {
      Statement statement(*this, "PRAGMA user_version");
      statement.step();
      version = statement.integer(0);
    }
    if (version > kVersion) {
      throw Error(ErrorKind::kUnsupported,
                  path_ + ": made by a newer motley (version " + std::to_string(version) + ")");
    }
    if (version == 0) execute(std::string("BEGIN;") + kTables + "COMMIT");
    Statement(*this, "UPDATE jobs SET state = ?, message = ? WHERE state < ?")
        .bind(std::int64_t{proto::STATE_FAILED})
        .bind_text("the coordinator stopped while the job was under way")
        .bind(std::int64_t{proto::STATE_DONE})
        .step();
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

JobStore::~JobStore() { sqlite3_close(database_); }

void JobStore::execute(const std::string& sql) {
  if (sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(path_, database_);
}

std::int64_t JobStore::add(const proto::JobSpec& spec, double submitted) {
  const std::scoped_lock lock(mutex_);
  Statement(*this, "INSERT INTO jobs (spec, state, message, iteration, submitted) VALUES (?, ?, '', 0, ?)")
      .bind_bytes(spec.SerializeAsString())
      .bind(std::int64_t{proto::STATE_QUEUED})
      .bind(submitted)
      .step();
  return sqlite3_last_insert_rowid(database_);
}

void JobStore::set_state(std::int64_t job, proto::JobState state, const std::string& message) {
  const std::scoped_lock lock(mutex_);
  Statement(*this, "UPDATE jobs SET state = ?, message = ? WHERE job = ?")
      .bind(std::int64_t{state})
      .bind_text(message)
      .bind(job)
      .step();
}

void JobStore::set_iteration(std::int64_t job, std::int64_t iteration) {
  const std::scoped_lock lock(mutex_);
  Statement(*this, "UPDATE jobs SET iteration = ? WHERE job = ?").bind(iteration).bind(job).step();
}

std::vector<proto::JobStatus> JobStore::jobs() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::JobStatus> result;
  Statement statement(*this, "SELECT job, spec, state, message, iteration, submitted FROM jobs ORDER BY job");
  while (statement.step()) {
    proto::JobSpec spec;
    spec.ParseFromString(statement.bytes(1));
    proto::JobStatus& status = result.emplace_back();
    status.set_job(statement.integer(0));
    status.set_state(static_cast<proto::JobState>(statement.integer(2)));
    status.set_kind(spec.kind());
    status.set_model(spec.model_name());
    status.set_message(statement.bytes(3));
    status.set_iteration(statement.integer(4));
    status.set_iterations(spec.iterations());
    status.set_submitted(statement.real(5));
  }
  return result;
}

void JobStore::remember(const proto::NodeDescription& node, double heard) {
  const std::scoped_lock lock(mutex_);
  Statement(*this, "INSERT OR REPLACE INTO nodes (name, description, heard) VALUES (?, ?, ?)")
      .bind_text(node.name())
      .bind_bytes(node.SerializeAsString())
      .bind(heard)
      .step();
}

std::vector<proto::NodeDescription> JobStore::nodes() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::NodeDescription> result;
  Statement statement(*this, "SELECT description FROM nodes ORDER BY name");
  while (statement.step()) result.emplace_back().ParseFromString(statement.bytes(0));
  return result;
}

}  // namespace motley
