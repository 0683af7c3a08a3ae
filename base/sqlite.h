#pragma once

// An SQLite file of one format: statements with values bound and read by type, failures as Error with the file's name.
// Only what keeps such a file includes this. Not thread-safe; several processes may have the same file open
// (write-ahead log, busy time-out).

#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace motley::sqlite {

// What the file is, for messages ("profile store"), and how it is told from others: `application` and `version` stand
// in its header.
struct Format {
  const char* what;
  std::int64_t application;
  std::int64_t version;
  const char* schema;  // the statements that make its tables
};

class Database {
 public:
  // Makes the file when it is not there; ":memory:" lives as long as the object. Throws Error(kInvalidInput) when the
  // file is of another kind or damaged, Error(kUnsupported) when it is of another version, Error(kUnavailable) when it
  // cannot be opened or stays locked.
  Database(std::string path, const Format& format);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  void execute(const std::string& sql);
  std::int64_t last_insert_id() const;

 private:
  friend class Statement;
  void create_or_check(const Format& format);
  void use_write_ahead_log();
  std::int64_t number(const char* sql);
  [[noreturn]] void fail(int code) const;

  std::string path_;
  std::string what_;
  sqlite3* db_ = nullptr;
};

class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds the next parameter.
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind_bytes(std::string_view bytes);

  bool step();   // true: a row is there to be read
  void run();    // to its end, then reset()
  void reset();  // ready for other values

  std::string text(int column) const;  // of bytes, too
  std::int64_t integer(int column) const;
  double real(int column) const;

 private:
  Statement& check(int code);

  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// Rolled back unless committed. Takes the write lock at once, so that it never fails half-way for want of it.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace motley::sqlite
