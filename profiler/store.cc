#include "profiler/store.h"

#include <ctime>
#include <map>
#include <set>

#include "base/sqlite.h"

namespace motley {
namespace {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

constexpr const char* kSchema = R"(
CREATE TABLE device (
  id INTEGER PRIMARY KEY, device TEXT NOT NULL, software TEXT NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL,
  threads INTEGER NOT NULL, torch TEXT NOT NULL, driver TEXT NOT NULL, pass_seconds REAL, pass_bytes_per_second REAL,
  context_bytes INTEGER, dispatch_seconds REAL, message_seconds REAL, message_work_seconds REAL,
  message_work_seconds_per_byte REAL, message_pause_seconds REAL, updated INTEGER NOT NULL, UNIQUE (device, software));
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
constexpr sqlite::Format kFormat{"profile store", 0x6d6f746c, 4, kSchema};  // "motl"

std::int64_t id_of(Statement& insert, Statement& select, const std::string& key) {
  insert.run();
  select.bind(key);
  select.step();
  const std::int64_t id = select.integer(0);
  select.reset();
  return id;
}

std::int64_t device_id(Database& database, const Profile& profile, std::int64_t now) {
  const Fingerprint& fingerprint = profile.fingerprint;
  Statement(database,
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
  Statement select(database, "SELECT id FROM device WHERE device = ? AND software = ?");
  select.bind(fingerprint.device()).bind(fingerprint.software()).step();
  const std::int64_t id = select.integer(0);
  if (profile.device) {
    Statement(database,
              "UPDATE device SET pass_seconds = ?, pass_bytes_per_second = ?, dispatch_seconds = ?, "
              "context_bytes = max(?, ifnull(context_bytes, 0)) WHERE id = ?")
        .bind(profile.device->pass.value)
        .bind(profile.device->pass_rate.value)
        .bind(profile.device->dispatch.value)
        .bind(profile.device->context.value)
        .bind(id)
        .run();
  }
  if (profile.messages) {
    Statement(database,
              "UPDATE device SET message_seconds = ?, message_work_seconds = ?, message_work_seconds_per_byte = ?, "
              "message_pause_seconds = ? WHERE id = ?")
        .bind(profile.messages->overhead.value)
        .bind(profile.messages->work.value)
        .bind(profile.messages->work_per_byte.value)
        .bind(profile.messages->pause.value)
        .bind(id)
        .run();
  }
  return id;
}

}  // namespace

ProfileStore::ProfileStore(const std::string& path) : database_(std::make_unique<Database>(path, kFormat)) {}

ProfileStore::~ProfileStore() = default;

const std::string& ProfileStore::path() const { return database_->path(); }

void ProfileStore::add(const Profile& profile) {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = std::time(nullptr);
  Transaction transaction(*database_);
  const std::int64_t device = device_id(*database_, profile, now);
  Statement signature(*database_, "INSERT INTO signature (hash, dtype, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
  Statement select(*database_, "SELECT id FROM signature WHERE hash = ?");
  Statement point(*database_, "INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
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
  Transaction transaction(*database_);
  Statement insert(*database_, "INSERT OR REPLACE INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
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
  Statement devices(*database_,
                    "SELECT id, model, threads, torch, driver, pass_seconds, pass_bytes_per_second, context_bytes, "
                    "pass_seconds IS NOT NULL, message_seconds, message_work_seconds, message_work_seconds_per_byte, "
                    "message_seconds IS NOT NULL, dispatch_seconds, message_pause_seconds FROM device WHERE kind = ? "
                    "ORDER BY updated DESC, id DESC");
  devices.bind(kind);
  Statement points(*database_,
                   "SELECT p.origin, s.hash, s.text, s.dtype, p.batch, p.seconds, p.spread, p.kept, p.workspace, "
                   "p.repeats FROM point p JOIN signature s ON s.id = p.signature WHERE p.device = ? "
                   "ORDER BY p.origin, p.signature, p.batch");
  while (devices.step()) {
    Profile profile;
    profile.fingerprint = {kind, devices.text(1), static_cast<int>(devices.integer(2)), devices.text(3),
                           devices.text(4)};
    if (devices.integer(8) != 0) {
      profile.device = {Seconds(devices.real(5)), BytesPerSecond(devices.real(6)), Bytes(devices.integer(7)),
                        Seconds(devices.real(13))};
    }
    if (devices.integer(12) != 0) {
      profile.messages = {Seconds(devices.real(9)), Seconds(devices.real(10)), Seconds(devices.real(11)),
                          Seconds(devices.real(14))};
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
  Statement statement(*database_, "SELECT DISTINCT kind FROM device ORDER BY kind");
  while (statement.step()) result.push_back(statement.text(0));
  return result;
}

std::vector<LinkSample> ProfileStore::links(const std::string& from, const std::string& to) const {
  const std::lock_guard lock(mutex_);
  std::vector<LinkSample> result;
  Statement statement(*database_,
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
