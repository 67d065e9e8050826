package journal

import (
	"bytes"
	"context"
	"database/sql/driver"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write empty.db anew")

// A new journal begins as the database that the schema and the vocabulary say.
func TestEmpty(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.db")
	c, err := open(made, create)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeEmpty(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if *update {
		b, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("empty.db", b, 0o644); err != nil {
			t.Fatal(err)
		}
		empty = b
	}
	copied := filepath.Join(t.TempDir(), "copied.db")
	if err := os.WriteFile(copied, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	got, want := content(t, copied), content(t, made)
	if got != want {
		t.Errorf("empty.db is not what the schema says; go test . -run TestEmpty -update writes it anew.\nit has\n%s\nand should have\n%s", got, want)
	}
}

// content is all that a journal has, as text.
func content(t *testing.T, path string) string {
	t.Helper()
	c, err := open(path, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out bytes.Buffer
	for _, q := range []string{
		"PRAGMA application_id", "PRAGMA user_version", "PRAGMA page_size", "PRAGMA encoding", "PRAGMA quick_check",
		"SELECT type, name, sql FROM sqlite_schema ORDER BY name", "SELECT id, word FROM words ORDER BY id",
		"SELECT count(*) FROM meta", "SELECT count(*) FROM items", "SELECT count(*) FROM events",
	} {
		rows, err := c.(driver.QueryerContext).QueryContext(context.Background(), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]driver.Value, len(rows.Columns()))
		for rows.Next(row) == nil {
			fmt.Fprintln(&out, row)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
