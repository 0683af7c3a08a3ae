#pragma once

// SQLite's statements with values bound and read by type, and its failures as Error with the file's name. Only
// profiler/store.cc includes this.

#include <sqlite3.h>

#include <string>

#include "base/error.h"

namespace motley::sqlite {

[[noreturn]] inline void fail(sqlite3* db, const std::string& path, int code) {
  const std::string reason = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  switch (code & 0xff) {  // the primary part of an extended code
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      throw Error(ErrorKind::kInvalidInput, path + ": this is no profile store, or it is damaged (" + reason +
                                                "): move it away, and profile again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorKind::kUnavailable, path + ": another process keeps the profile store locked: try again");
    default:
      throw Error(ErrorKind::kUnavailable, path + ": the profile store cannot be used: " + reason);
  }
}

class Statement {
 public:
  Statement(sqlite3* db, const std::string& path, const char* sql) : db_(db), path_(path) {
    check(sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds the next parameter.
  Statement& bind(const std::string& value) {
    return check(
        sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
  }
  Statement& bind(std::int64_t value) { return check(sqlite3_bind_int64(statement_, ++bound_, value)); }
  Statement& bind(double value) { return check(sqlite3_bind_double(statement_, ++bound_, value)); }

  // True: a row is there to be read.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) fail(db_, path_, code);
    return code == SQLITE_ROW;
  }
  void run() {
    while (step()) {
    }
    reset();
  }
  // Ready for other values.
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

  std::string text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return data == nullptr ? "" : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  Statement& check(int code) {
    if (code != SQLITE_OK) fail(db_, path_, code);
    return *this;
  }

  sqlite3* db_;
  const std::string& path_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

inline void execute(sqlite3* db, const std::string& path, const char* sql) {
  const int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(db, path, code);
}

// Rolled back unless committed. Takes the write lock at once, so that it never fails half-way for want of it.
class Transaction {
 public:
  Transaction(sqlite3* db, const std::string& path) : db_(db), path_(path) { execute(db, path, "BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (open_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    execute(db_, path_, "COMMIT");
    open_ = false;
  }

 private:
  sqlite3* db_;
  const std::string& path_;
  bool open_ = true;
};

}  // namespace motley::sqlite
