package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// schemaVersion is what this code writes, oldVersion the oldest that it reads;
	// FORMAT.md tells the tables.
	schemaVersion = 5
	oldVersion    = 3
	// othersInMeta is the first version that has Header.Others in meta; those before have a table
	// of their own for it, which takes a page of each journal.
	othersInMeta = 5
	// applicationID marks the database as a journal: "bide" in ASCII.
	applicationID = 0x62696465

	dbName    = "journal.db"
	walSuffix = "-wal" // of the database's log
	lockName  = "lock"
)

const schema = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL);
CREATE TABLE items (idx INTEGER PRIMARY KEY, id TEXT, data BLOB NOT NULL);
CREATE TABLE events (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, records TEXT NOT NULL);
CREATE VIEW history AS
SELECT first + key AS seq,
	strftime('%Y-%m-%dT%H:%M:%f', json_extract(value, '$.t') / 1e9, 'unixepoch') || 'Z' AS time,
	coalesce((SELECT word FROM words WHERE id = json_extract(value, '$.k')), json_extract(value, '$.k')) AS type,
	coalesce((SELECT word FROM words WHERE id = json_extract(value, '$.p')), json_extract(value, '$.p')) AS phase,
	coalesce((SELECT word FROM words WHERE id = json_extract(value, '$.s')), json_extract(value, '$.s')) AS step,
	json_extract(value, '$.i') AS item, json_extract(value, '$.x') AS idx,
	json_extract(value, '$.a') AS attempt, json_extract(value, '$.b') AS attempts,
	coalesce((SELECT word FROM words WHERE id = json_extract(value, '$.u')), json_extract(value, '$.u')) AS status,
	coalesce((SELECT word FROM words WHERE id = json_extract(value, '$.c')), json_extract(value, '$.c')) AS class,
	json_extract(value, '$.w') AS delay_ms, json_extract(value, '$.y') AS duration_ms,
	json_extract(value, '$.l') AS label, json_extract(value, '$.m') AS message, json_extract(value, '$.e') AS exit_code,
	json_extract(value, '$.n') AS total, json_extract(value, '$.f') AS "from", json_extract(value, '$.o') AS "to",
	json_extract(value, '$.r') AS retry, json_extract(value, '$.d') AS data
FROM events, json_each(records);
`

// mode is how a database file is opened.
type mode string

const (
	readOnly  mode = "ro"
	readWrite mode = "rw"
	create    mode = "rwc"
)

// connector opens path. A journal may come from another machine, so nothing
// that its schema says is trusted, and cells are checked as they are read.
func connector(path string, m mode) (driver.Connector, error) {
	q := url.Values{"mode": {string(m)}}
	q.Add("_pragma", "busy_timeout(5000)")
	q.Add("_pragma", "trusted_schema(0)")
	q.Add("_pragma", "cell_size_check(1)")
	q.Add("_pragma", "temp_store(2)")
	if m != readOnly {
		// Pages. A log of 1 MiB is begun anew soon, and to sync what is written over others
		// takes half as long as to sync a file that has become longer: strict maps take 1.2
		// times as long with a log that only grows.
		q.Add("_pragma", "wal_autocheckpoint(256)")
		q.Add("_pragma", "checkpoint_fullfsync(1)") // has a meaning on macOS only
	}
	return sqlite.NewConnector(address(path, q))
}

// connect opens one connection outside of a pool.
func connect(path string, m mode) (driver.Conn, error) {
	c, err := connector(path, m)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

// open opens a database that is our own, with the settings that SQLite has
// anyway.
func open(path string, m mode) (driver.Conn, error) {
	c, err := sqlite.NewConnector(address(path, url.Values{"mode": {string(m)}}))
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

func address(path string, q url.Values) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	return u.String()
}

func execSQL(c driver.Conn, query string, args ...driver.NamedValue) error {
	_, err := c.(driver.ExecerContext).ExecContext(context.Background(), query, args)
	return err
}

// code is the primary result code of the database's error, 0 for any other.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// systemFault reports whether an error comes from the system and not from the journal's
// file: from the memory that its readers share, for which a full disk has no room, from
// locks, or from a write or a sync.
func systemFault(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code()&0xff != sqlite3.SQLITE_IOERR {
		return false
	}
	switch e.Code() {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_DATA, sqlite3.SQLITE_IOERR_CORRUPTFS:
		return false // what is there cannot be read
	}
	return true
}

// noRoom says whether an error is that of a full disk.
func noRoom(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE) || errors.Is(err, syscall.ENOSPC)
}

// readError puts an error met while reading the journal at path in words.
func readError(path string, err error) error {
	if systemFault(err) {
		return diskError(path, "open", err)
	}
	switch code(err) {
	case sqlite3.SQLITE_NOTADB:
		return &ForeignError{Path: path, Detail: "this is no journal of bide (no SQLite database); it was left as it is"}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH,
		sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_FORMAT:
		return damaged(path, strings.TrimPrefix(err.Error(), "sqlite: "), err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH:
		return fmt.Errorf("cannot open the journal %s: %w; may this user read and write its directory?", path, err)
	case sqlite3.SQLITE_FULL:
		return diskError(path, "write", err)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("cannot continue with the journal %s: %w; a process has been reading it for seconds: wait until that has ended, or end it", path, err)
	}
	return err
}

// writeError is readError for what was met while writing.
func writeError(path string, err error) error {
	switch code(err) {
	case 0:
		return err
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return readError(path, err)
	}
	return diskError(path, "write", err)
}

const damageAdvice = "it was left as it is: copy the run's directory away, and start a new run (`bide clean` removes the old one)"

func damaged(path, detail string, err error) *DamagedError {
	return &DamagedError{Path: path, Detail: detail, Advice: damageAdvice, Err: err}
}

func diskError(path, op string, err error) *DiskError {
	e := &DiskError{Path: path, Op: op, Err: err, Full: noRoom(err)}
	if e.Full {
		e.Advice = "free some space, then `bide resume` continues from what is recorded"
	} else {
		e.Advice = "see to the disk, then `bide resume` continues from what is recorded"
	}
	return e
}

// checkFile tells an absent or empty database from one worth opening, and
// does so without opening it: closing a file descriptor of a database would
// drop the locks that this process has on it.
func checkFile(path string) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged(path, "the file is not there", err)
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return &ForeignError{Path: path, Detail: "this is no regular file"}
	case fi.Size() == 0:
		return damaged(path, "the file is empty", nil)
	}
	return nil
}

// checkVersion refuses what is not a journal, or is one of a version that is not
// known, and gives the version.
func checkVersion(ctx context.Context, db *sql.DB, path string) (version int64, err error) {
	var app int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&app); err != nil {
		return 0, readError(path, err)
	}
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, readError(path, err)
	}
	switch {
	case app != applicationID:
		return 0, &ForeignError{Path: path, Detail: "this is a database of another program, not a journal of bide; it was left as it is"}
	case version > schemaVersion:
		return 0, &ForeignError{Path: path, Detail: fmt.Sprintf("the journal has version %d and this bide knows versions up to %d: use the newer bide that wrote it", version, schemaVersion)}
	case version >= 1 && version < oldVersion:
		return 0, &ForeignError{Path: path, Detail: fmt.Sprintf("the journal has version %d, of an earlier bide, and this bide reads versions from %d on: continue with the bide that wrote it", version, oldVersion)}
	case version < 1:
		return 0, damaged(path, fmt.Sprintf("version %d is none that was ever written", version), nil)
	}
	return version, nil
}
