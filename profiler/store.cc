#include "profiler/store.h"

#include <ctime>
#include <map>
#include <set>

#include "profiler/sqlite.h"

namespace motley {
namespace {

using sqlite::Statement;
using sqlite::Transaction;

constexpr std::int64_t kApplication = 0x6d6f746c;  // "motl", in the file's header
constexpr std::int64_t kVersion = 1;
constexpr int kBusyMilliseconds = 10'000;

constexpr const char* kSchema = R"(
CREATE TABLE device (
  id INTEGER PRIMARY KEY, device TEXT NOT NULL, software TEXT NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL,
  threads INTEGER NOT NULL, torch TEXT NOT NULL, driver TEXT NOT NULL, pass_seconds REAL, pass_bytes_per_second REAL,
  message_seconds REAL, context_bytes INTEGER, updated INTEGER NOT NULL, UNIQUE (device, software));
CREATE INDEX device_kind ON device (kind);
CREATE TABLE signature (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, dtype TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE point (
  signature INTEGER NOT NULL REFERENCES signature, device INTEGER NOT NULL REFERENCES device, batch INTEGER NOT NULL,
  origin INTEGER NOT NULL, seconds REAL NOT NULL, spread REAL NOT NULL, kept INTEGER NOT NULL,
  workspace INTEGER NOT NULL, repeats INTEGER NOT NULL, updated INTEGER NOT NULL,
  PRIMARY KEY (signature, device, origin, batch)) WITHOUT ROWID;
CREATE TABLE link (
  a TEXT NOT NULL, b TEXT NOT NULL, both_ways INTEGER NOT NULL, bytes INTEGER NOT NULL, seconds REAL NOT NULL,
  spread REAL NOT NULL, repeats INTEGER NOT NULL, updated INTEGER NOT NULL,
  PRIMARY KEY (a, b, both_ways, bytes)) WITHOUT ROWID;
)";

std::int64_t pragma(sqlite3* db, const std::string& path, const char* sql) {
  Statement statement(db, path, sql);
  return statement.step() ? statement.integer(0) : 0;
}

// Within a transaction, so that of two processes that open a new file one makes the tables and the other finds them.
void create_or_check(sqlite3* db, const std::string& path) {
  Transaction transaction(db, path);
  const std::int64_t application = pragma(db, path, "PRAGMA application_id");
  const std::int64_t version = pragma(db, path, "PRAGMA user_version");
  const std::int64_t tables = pragma(db, path, "SELECT count(*) FROM sqlite_master");
  if (application == 0 && tables == 0) {
    sqlite::execute(db, path, kSchema);
    sqlite::execute(db, path, ("PRAGMA application_id = " + std::to_string(kApplication)).c_str());
    sqlite::execute(db, path, ("PRAGMA user_version = " + std::to_string(kVersion)).c_str());
  } else if (application != kApplication) {
    throw Error(ErrorKind::kInvalidInput, path + ": this SQLite file is no profile store of motley: name another file");
  } else if (version != kVersion) {
    throw Error(ErrorKind::kInvalidInput, path + ": this profile store has version " + std::to_string(version) +
                                              ", this motley reads version " + std::to_string(kVersion) +
                                              ": use the motley that wrote it, or name another file");
  }
  transaction.commit();
}

std::int64_t id_of(Statement& insert, Statement& select, const std::string& key) {
  insert.run();
  select.bind(key);
  select.step();
  const std::int64_t id = select.integer(0);
  select.reset();
  return id;
}

std::int64_t device_id(sqlite3* db, const std::string& path, const Profile& profile, std::int64_t now) {
  const Fingerprint& fingerprint = profile.fingerprint;
  Statement(db, path,
            "INSERT INTO device (device, software, kind, model, threads, torch, driver, updated) VALUES "
            "(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET updated = excluded.updated")
      .bind(fingerprint.device())
      .bind(fingerprint.software())
      .bind(fingerprint.kind)
      .bind(fingerprint.model)
      .bind(std::int64_t{fingerprint.threads})
      .bind(fingerprint.torch)
      .bind(fingerprint.driver)
      .bind(now)
      .run();
  Statement select(db, path, "SELECT id FROM device WHERE device = ? AND software = ?");
  select.bind(fingerprint.device()).bind(fingerprint.software()).step();
  const std::int64_t id = select.integer(0);
  if (profile.device) {
    Statement(db, path,
              "UPDATE device SET pass_seconds = ?, pass_bytes_per_second = ?, message_seconds = ?, context_bytes = ? "
              "WHERE id = ?")
        .bind(profile.device->pass.value)
        .bind(profile.device->pass_rate.value)
        .bind(profile.device->message.value)
        .bind(profile.device->context.value)
        .bind(id)
        .run();
  }
  return id;
}

}  // namespace

ProfileStore::ProfileStore(const std::string& path) : path_(path) {
  const int code = sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  try {
    if (code != SQLITE_OK) sqlite::fail(db_, path_, code);
    sqlite3_busy_timeout(db_, kBusyMilliseconds);
    create_or_check(db_, path_);
    sqlite::execute(db_, path_, "PRAGMA journal_mode = WAL");
    sqlite::execute(db_, path_, "PRAGMA synchronous = NORMAL");
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

ProfileStore::~ProfileStore() { sqlite3_close(db_); }

void ProfileStore::add(const Profile& profile) {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = std::time(nullptr);
  Transaction transaction(db_, path_);
  const std::int64_t device = device_id(db_, path_, profile, now);
  Statement signature(db_, path_, "INSERT INTO signature (hash, dtype, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
  Statement select(db_, path_, "SELECT id FROM signature WHERE hash = ?");
  Statement point(db_, path_, "INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const ProfiledOp& op : profile.ops) {
    signature.bind(op.signature).bind(op.dtype).bind(op.text);
    const std::int64_t id = id_of(signature, select, op.signature);
    for (const CurvePoint& figure : op.points) {
      point.bind(id).bind(device).bind(figure.batch).bind(static_cast<std::int64_t>(profile.origin));
      point.bind(figure.time.value).bind(figure.spread.value).bind(figure.kept.value).bind(figure.workspace.value);
      point.bind(std::int64_t{figure.repeats}).bind(now).run();
    }
  }
  transaction.commit();
}

void ProfileStore::add(const std::vector<LinkSample>& links) {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = std::time(nullptr);
  Transaction transaction(db_, path_);
  Statement insert(db_, path_, "INSERT OR REPLACE INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  for (const LinkSample& link : links) {
    insert.bind(link.from).bind(link.to).bind(std::int64_t{link.both_ways}).bind(link.bytes.value);
    insert.bind(link.time.value).bind(link.spread.value).bind(std::int64_t{link.repeats}).bind(now).run();
  }
  transaction.commit();
}

std::vector<Profile> ProfileStore::profiles(const std::string& kind, const std::vector<std::string>& signatures) const {
  const std::lock_guard lock(mutex_);
  const std::set<std::string> wanted(signatures.begin(), signatures.end());
  std::vector<Profile> result;
  Statement devices(
      db_, path_,
      "SELECT id, model, threads, torch, driver, pass_seconds, pass_bytes_per_second, message_seconds, "
      "context_bytes, message_seconds IS NOT NULL FROM device WHERE kind = ? ORDER BY updated DESC, id DESC");
  devices.bind(kind);
  Statement points(db_, path_,
                   "SELECT p.origin, s.hash, s.text, s.dtype, p.batch, p.seconds, p.spread, p.kept, p.workspace, "
                   "p.repeats FROM point p JOIN signature s ON s.id = p.signature WHERE p.device = ? "
                   "ORDER BY p.origin, p.signature, p.batch");
  while (devices.step()) {
    Profile profile;
    profile.fingerprint = {kind, devices.text(1), static_cast<int>(devices.integer(2)), devices.text(3),
                           devices.text(4)};
    if (devices.integer(9) != 0) {
      profile.device = {Seconds(devices.real(5)), BytesPerSecond(devices.real(6)), Seconds(devices.real(7)),
                        Bytes(devices.integer(8))};
    }
    std::map<Origin, Profile> by_origin;
    points.bind(devices.integer(0));
    while (points.step()) {
      if (!wanted.contains(points.text(1))) continue;
      std::vector<ProfiledOp>& ops = by_origin[static_cast<Origin>(points.integer(0))].ops;
      if (ops.empty() || ops.back().signature != points.text(1)) {
        ops.push_back({points.text(1), points.text(2), points.text(3), {}});
      }
      ops.back().points.push_back({points.integer(4), Seconds(points.real(5)), Seconds(points.real(6)),
                                   Bytes(points.integer(7)), Bytes(points.integer(8)),
                                   static_cast<std::int32_t>(points.integer(9))});
    }
    points.reset();
    if (by_origin.empty()) by_origin[Origin::kProfile];
    for (auto& [origin, part] : by_origin) {
      profile.origin = origin;
      profile.ops = std::move(part.ops);
      result.push_back(profile);
    }
  }
  return result;
}

std::vector<std::string> ProfileStore::kinds() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  Statement statement(db_, path_, "SELECT DISTINCT kind FROM device ORDER BY kind");
  while (statement.step()) result.push_back(statement.text(0));
  return result;
}

std::vector<LinkSample> ProfileStore::links(const std::string& from, const std::string& to) const {
  const std::lock_guard lock(mutex_);
  std::vector<LinkSample> result;
  Statement statement(db_, path_,
                      "SELECT a, b, both_ways, bytes, seconds, spread, repeats FROM link WHERE ?1 = '' OR "
                      "(a = ?1 AND b = ?2) OR (a = ?2 AND b = ?1) ORDER BY a, b, both_ways, bytes");
  statement.bind(from).bind(to);
  while (statement.step()) {
    result.push_back({statement.text(0), statement.text(1), statement.integer(2) != 0, Bytes(statement.integer(3)),
                      Seconds(statement.real(4)), Seconds(statement.real(5)),
                      static_cast<std::int32_t>(statement.integer(6))});
  }
  return result;
}

}  // namespace motley
