// Package database keeps the objects of a store of runs in a table of PostgreSQL: the
// order, the fence and the logs of a run are rows of it, and each verb is one
// transaction. The table's key decides between several who create one name.
package database

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bide-dev/bide/cmd/bide-temporal/spool"
	"github.com/bide-dev/bide/internal/cluster"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// patience is how long a transaction may take, with what it waits for, beside the
	// bytes of an object, of which so many go in a second at least; removing is how long
	// the removal of a run may.
	patience = 30 * time.Second
	slowest  = 100_000
	removing = 10 * time.Minute
	// tries is how often a transaction is tried whose connection broke, or which met
	// another one; the waits between grow to a second.
	tries = 10
	// piece is how many bytes of an object a row has; the last row has fewer.
	piece = 1 << 20
	// table is found in the search path, and made where it is not.
	table = "bide_objects"
)

// Open gives the objects in a database. The text is a URL, or postgres: and the words of
// libpq; the PG variables, ~/.pgpass and the service file say what it does not. Nothing
// is connected yet.
func Open(text string) (cluster.Objects, error) {
	if !strings.HasPrefix(text, "postgres://") {
		text = strings.TrimPrefix(text, "postgres:")
	}
	c, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("it names no database: %w", secretless(err))
	}
	if c.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement { // the default, which needs one connection for all: a pooler may give another
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	c.ConnConfig.ConnectTimeout = min(max(c.ConnConfig.ConnectTimeout, 5*time.Second), patience)
	c.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { // what was created must be durable
		_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return &objects{pool: pool, tries: tries, where: fmt.Sprintf("%s of %s", c.ConnConfig.Database, c.ConnConfig.Host)}, nil
}

// secretless is the reason of an error of pgx without the text that it read.
func secretless(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

type objects struct {
	pool  *pgxpool.Pool
	where string
	tries int

	mu   sync.Mutex
	made bool // the table is there
}

// do carries out a transaction, again where its connection broke: it may have been
// carried out then already.
func (o *objects) do(op, name string, limit time.Duration, f func(ctx context.Context) error) error {
	wait := 20 * time.Millisecond
	for try := 1; ; try++ {
		err := o.ready()
		if err == nil {
			err = once(limit, f)
		}
		if err == nil {
			return nil
		}
		if said := (saidError{}); errors.As(err, &said) {
			return said.error
		}
		if try == o.tries || !passing(err) {
			return o.fails(op, name, err)
		}
		if readOnly(err) {
			o.pool.Reset() // another connection may be to the server that is the primary now
		}
		time.Sleep(wait)
		wait = min(2*wait, time.Second)
	}
}

func once(limit time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return f(ctx)
}

// saidError is what is said to who calls. Other errors may be anything: that a socket
// is not there looks as if an object were not.
type saidError struct{ error }

// passing reports whether an error may be another one soon, or none: that of a
// connection, of a server that starts or ends, or of two transactions that met.
func passing(err error) bool {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return readOnly(err) || strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "40") || strings.HasPrefix(e.Code, "53") || strings.HasPrefix(e.Code, "57P")
	}
	return true
}

// readOnly reports whether a server takes no writes, as one that is not the primary any more.
func readOnly(err error) bool {
	e := (*pgconn.PgError)(nil)
	return errors.As(err, &e) && e.Code == "25006"
}

// fails is an error of the database, with what was done to what, and what to do about it.
func (o *objects) fails(op, name string, err error) error {
	e := (*pgconn.PgError)(nil)
	refused := errors.As(err, &e)
	if refused {
		text := e.Message
		switch {
		case strings.HasPrefix(e.Code, "28"):
			text += ": set PGPASSWORD, or write the password to ~/.pgpass"
		case e.Code == "3D000":
			text += ": make it, with createdb"
		case e.Code == "25006":
			text += ": is it a standby? target_session_attrs=read-write and several hosts find the primary"
		case e.Code == "42501":
			text += ": its user needs the right to make the table " + table + ", or somebody makes it for him"
		}
		err = errors.New(text)
	}
	return &fs.PathError{Op: op, Path: "postgres:" + table + "/" + name, Err: fmt.Errorf("the database %s: %s", o.where, err)}
}

// ready has the table made once.
func (o *objects) ready() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made {
		return nil
	}
	err := once(patience, func(ctx context.Context) error {
		var there bool
		if err := o.pool.QueryRow(ctx, `SELECT to_regclass('`+table+`') IS NOT NULL`).Scan(&there); err != nil || there {
			return err
		}
		return pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
			// Several that make it at once wait for each other: IF NOT EXISTS alone fails then.
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('`+table+`'))`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+table+` (
				name text COLLATE "C" NOT NULL,
				piece int NOT NULL,   -- of the object, from 0
				size bigint NOT NULL, -- of all of the object
				maker text NOT NULL,  -- the mark of its writer
				body bytea NOT NULL,
				PRIMARY KEY (name, piece))`)
			return err
		})
	})
	o.made = err == nil
	return err
}

func (o *objects) Create(name string, write func(io.Writer) error) error {
	return o.create(name, write, func(err error) error { return err })
}

// create is Create; heard is what is heard of each attempt, as answers may be lost.
func (o *objects) create(name string, write func(io.Writer) error, heard func(error) error) error {
	s, err := spool.Take(write)
	if err != nil {
		return err
	}
	maker := rand.Text()
	err = o.do("write", name, patience+time.Duration(s.Size/slowest)*time.Second, func(ctx context.Context) error {
		if s.Size <= piece { // one statement is a transaction, too
			return heard(insert(ctx, o.pool, name, maker, s))
		}
		return heard(pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error { return insert(ctx, tx, name, maker, s) }))
	})
	return errors.Join(err, s.Close())
}

// conn is a connection, or a transaction on one.
type conn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// insert creates an object piece by piece. One that is there already is this one where
// its maker is: the answer to an earlier attempt was lost then.
func insert(ctx context.Context, c conn, name, maker string, s *spool.Spool) error {
	body := s.Reader()
	b := make([]byte, min(piece, s.Size))
	for n := int64(0); n == 0 || n*piece < s.Size; n++ {
		size, err := io.ReadFull(body, b[:min(piece, s.Size-n*piece)])
		if err != nil && !errors.Is(err, io.EOF) {
			return saidError{err}
		}
		tag, err := c.Exec(ctx, `INSERT INTO `+table+` (name, piece, size, maker, body) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			name, n, s.Size, maker, b[:size])
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			continue
		}
		var was string
		if err := c.QueryRow(ctx, `SELECT maker FROM `+table+` WHERE name = $1 AND piece = 0`, name).Scan(&was); err != nil {
			return err // it was removed meanwhile
		}
		if was == maker {
			return nil
		}
		return saidError{&fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}}
	}
	return nil
}

func (o *objects) Read(name string, from int64) (io.ReadCloser, error) {
	r := &reader{o: o, name: name, piece: from / piece}
	err := r.fetch()
	switch {
	case err == nil:
		r.rest = r.rest[min(from%piece, int64(len(r.rest))):]
	case errors.Is(err, fs.ErrNotExist) && r.piece > 0:
		err = o.row(name, 0, &r.size, &[]byte{}) // it may be there, and shorter
		r.piece = r.size/piece + 1
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// row reads a piece of an object; fs.ErrNotExist where there is none.
func (o *objects) row(name string, n int64, size *int64, body *[]byte) error {
	return o.do("read", name, patience, func(ctx context.Context) error {
		err := o.pool.QueryRow(ctx, `SELECT size, body FROM `+table+` WHERE name = $1 AND piece = $2`, name, n).Scan(size, body)
		if errors.Is(err, pgx.ErrNoRows) {
			err = saidError{&fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}}
		}
		return err
	})
}

// reader reads an object piece by piece.
type reader struct {
	o     *objects
	name  string
	size  int64 // of the object
	piece int64 // that rest is of
	rest  []byte
}

func (r *reader) fetch() error { return r.o.row(r.name, r.piece, &r.size, &r.rest) }

func (r *reader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if (r.piece+1)*piece >= r.size {
			return 0, io.EOF
		}
		r.piece++
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) Close() error { return nil }

// children steps from child to child of a folder, $1, by the index, so that what is
// below a child costs nothing: behind "a/…" comes what is not below "$1a0", as 0 follows
// the slash, and behind an object what is greater than its name.
const children = `WITH RECURSIVE t (name, child) AS (
	(SELECT name, split_part(substr(name, $3), '/', 1) FROM ` + table + ` WHERE name >= $1 AND name < $2 ORDER BY name LIMIT 1)
	UNION ALL
	SELECT n.name, split_part(substr(n.name, $3), '/', 1) FROM t, LATERAL (
		SELECT name FROM ` + table + `
		WHERE name >= CASE WHEN t.name = $1 || t.child THEN t.name || chr(1) ELSE $1 || t.child || '0' END AND name < $2
		ORDER BY name LIMIT 1) n
) SELECT child FROM t`

func (o *objects) List(folder string) (names []string, err error) {
	err = o.do("list", folder, patience, func(ctx context.Context) error {
		rows, err := o.pool.Query(ctx, children, folder+"/", folder+"0", utf8.RuneCountInString(folder)+2)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

func (o *objects) Remove(place string) error {
	return o.do("remove", place, removing, func(ctx context.Context) error {
		_, err := o.pool.Exec(ctx, `DELETE FROM `+table+` WHERE name >= $1 AND name < $2`, place+"/", place+"0")
		return err
	})
}
