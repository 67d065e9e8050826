package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/cmd/bide-temporal/database/pgtest"
	"github.com/bide-dev/bide/internal/cluster/storetest"
)

func open(t *testing.T, url string) *objects {
	t.Helper()
	o, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.(*objects).pool.Close)
	return o.(*objects)
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)

	t.Run("made at once by many", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 8 {
			o := open(t, s.URL)
			wg.Go(func() {
				if err := o.Create(fmt.Sprintf("many/%d", i), text("x")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("conform", func(t *testing.T) { storetest.Conform(t, open(t, s.URL), 1100) })
	t.Run("model", func(t *testing.T) {
		orders := 20
		if os.Getenv("BIDE_CLUSTER") == "long" {
			orders = 0
		}
		o := open(t, s.URL)
		storetest.Model(t, o, 1, orders, func(run string) map[string][]byte { return files(t, o, run) })
	})
	t.Run("lost answers", func(t *testing.T) { lostAnswers(t, open(t, s.URL)) })
	t.Run("away for a moment", func(t *testing.T) {
		o := open(t, s.URL)
		large := strings.Repeat("0123456789", 1<<20)
		if err := o.Create("away/large", text(large)); err != nil {
			t.Fatal(err)
		}
		f, err := o.Read("away/large", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(f, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		s.End()
		s.Begin()
		got, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil || string(got) != large[100:] {
			t.Errorf("%d bytes of %d, %v", len(got), len(large)-100, err)
		}
		if err := o.Create("away/large", text(large)); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	})
	t.Run("read-only for a moment, as behind a failover", func(t *testing.T) {
		other := open(t, s.URL)
		run := func(sql string) {
			t.Helper()
			if _, err := other.pool.Exec(context.Background(), sql); err != nil {
				t.Fatal(err)
			}
		}
		run(`ALTER ROLE bide SET default_transaction_read_only = on`)
		o := open(t, s.URL)
		n := 0
		err := o.create("failover/x", text("x"), func(err error) error {
			if n++; n == 1 {
				if !readOnly(err) {
					t.Errorf("%v", err)
				}
				run(`ALTER ROLE bide RESET default_transaction_read_only`)
			}
			return err
		})
		if err != nil || n != 2 {
			t.Errorf("tried %d times: %v", n, err)
		}
		// A pooler may give each transaction another connection.
		if err := o.pool.QueryRow(context.Background(), `SELECT count(*) FROM pg_prepared_statements`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d prepared statements, %v", n, err)
		}
	})
	t.Run("no table, no right", func(t *testing.T) {
		o := open(t, s.URL)
		if _, err := o.pool.Exec(context.Background(), `CREATE ROLE guest LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE SCHEMA empty`); err != nil {
			t.Fatal(err)
		}
		guest := open(t, strings.Replace(s.URL, "bide@", "guest@", 1)+"&search_path=empty")
		if err := guest.Create("a/b", text("x")); err == nil || !strings.Contains(err.Error(), "needs the right to make the table bide_objects") && !strings.Contains(err.Error(), "no schema has been selected") {
			t.Errorf("%v", err)
		}
	})
}

// files gives what a run has in the table, past Read.
func files(t *testing.T, o *objects, run string) map[string][]byte {
	t.Helper()
	below := "runs/" + run + "/"
	rows, err := o.pool.Query(context.Background(), `SELECT name, body FROM bide_objects WHERE starts_with(name, $1)`, below)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for rows.Next() {
		var name string
		var body []byte
		if err := rows.Scan(&name, &body); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(name, below)] = body
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all
}

// lostAnswers: where the database has an object and the answer is lost, its writer has
// created it all the same, and nobody else has.
func lostAnswers(t *testing.T, o *objects) {
	if err := o.Create("lost/first", text("")); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 3 << 20} {
		name := fmt.Sprintf("lost/%d", size)
		n := 0
		err := o.create(name, text(strings.Repeat("x", size)), func(err error) error {
			if n++; n == 1 && err == nil {
				return io.ErrUnexpectedEOF // as where the connection breaks behind the COMMIT
			}
			return err
		})
		if err != nil || n != 2 {
			t.Errorf("%s, tried %d times: %v", name, n, err)
		}
		if err := o.Create(name, text(strings.Repeat("x", size))); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

// TestMessages: what is wrong, where, and what to do, without anything secret.
func TestMessages(t *testing.T) {
	t.Parallel()
	if _, err := Open("postgres:host=a port=many dbname=x"); err == nil || !strings.Contains(err.Error(), "port") {
		t.Errorf("%v", err)
	}
	dir := t.TempDir()
	o := open(t, "postgres://bide@/runs?host="+dir)
	o.tries = 2
	for verb, do := range map[string]func() error{
		"create": func() error { return o.Create("a/b", text("x")) },
		"read":   func() error { _, err := o.Read("a/b", 0); return err },
		"list":   func() error { _, err := o.List("a"); return err },
		"remove": func() error { return o.Remove("a") },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "the database runs of "+dir) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
