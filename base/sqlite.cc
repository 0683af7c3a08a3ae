#include "base/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include "base/error.h"

namespace motley::sqlite {
namespace {

constexpr int kBusyMilliseconds = 10'000;

}  // namespace

Database::Database(std::string path, const Format& format) : path_(std::move(path)), what_(format.what) {
  const int code = sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  try {
    if (code != SQLITE_OK) fail(code);
    sqlite3_busy_timeout(db_, kBusyMilliseconds);
    create_or_check(format);
    use_write_ahead_log();
    execute("PRAGMA synchronous = NORMAL");
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

Database::~Database() { sqlite3_close(db_); }

// The change of mode, alone of all statements, does not wait for others that have the file open: so it is tried again.
void Database::use_write_ahead_log() {
  constexpr int kPause = 10;  // milliseconds
  int code = SQLITE_BUSY;
  for (int waited = 0; code == SQLITE_BUSY && waited < kBusyMilliseconds; waited += kPause) {
    if (waited > 0) sqlite3_sleep(kPause);
    code = sqlite3_exec(db_, "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr);
  }
  if (code != SQLITE_OK) fail(code);
}

// Within a transaction, so that of two processes that open a new file one makes the tables and the other finds them.
void Database::create_or_check(const Format& format) {
  Transaction transaction(*this);
  const std::int64_t application = number("PRAGMA application_id");
  const std::int64_t version = number("PRAGMA user_version");
  if (application == 0 && number("SELECT count(*) FROM sqlite_master") == 0) {
    execute(format.schema);
    execute("PRAGMA application_id = " + std::to_string(format.application));
    execute("PRAGMA user_version = " + std::to_string(format.version));
  } else if (application != format.application) {
    throw Error(ErrorKind::kInvalidInput,
                path_ + ": this SQLite file is no " + what_ + " of motley: name another file");
  } else if (version != format.version) {
    throw Error(ErrorKind::kUnsupported, path_ + ": this " + what_ + " has version " + std::to_string(version) +
                                             ", this motley reads version " + std::to_string(format.version) +
                                             ": use the motley that wrote it, or name another file");
  }
  transaction.commit();
}

std::int64_t Database::number(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

void Database::fail(int code) const {
  const std::string reason = db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  switch (code & 0xff) {  // the primary part of an extended code
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      throw Error(ErrorKind::kInvalidInput, path_ + ": this is no " + what_ + ", or it is damaged (" + reason +
                                                "): move it away, and a new one is made");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorKind::kUnavailable, path_ + ": another process keeps the " + what_ + " locked: try again");
    default:
      throw Error(ErrorKind::kUnavailable, path_ + ": the " + what_ + " cannot be used: " + reason);
  }
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(db_); }

Statement::Statement(Database& database, const char* sql) : database_(database) {
  check(sqlite3_prepare_v2(database.db_, sql, -1, &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::check(int code) {
  if (code != SQLITE_OK) database_.fail(code);
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  return check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}
Statement& Statement::bind(std::int64_t value) { return check(sqlite3_bind_int64(statement_, ++bound_, value)); }
Statement& Statement::bind(double value) { return check(sqlite3_bind_double(statement_, ++bound_, value)); }
Statement& Statement::bind_bytes(std::string_view bytes) {
  return check(sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT));
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) database_.fail(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(statement_);
  bound_ = 0;
}

std::string Statement::text(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return data == nullptr ? "" : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

Transaction::Transaction(Database& database) : database_(database) { database.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {  // SQLite has rolled back already
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace motley::sqlite
