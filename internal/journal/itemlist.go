package journal

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
)

// ErrNoItem says that the list has no item of that index.
var ErrNoItem = errors.New("the run has no such item")

// loadChunk is how much of the list goes into one transaction: its events wait
// no longer than that takes.
const (
	loadChunkItems = 2000
	loadChunkBytes = 1 << 20
)

// PutItems records the item list, streamed, and gives the number of items and
// the digest of the list. The items come in order; their Index is 0 or right.
//
// A load that was interrupted, by an error of the sequence or by a crash, has
// recorded nothing: PutItems starts over. Once a list is recorded, it stays,
// and another one is refused. The list is on the disk when a later [Journal.Sync]
// returns.
func (j *Journal) PutItems(ctx context.Context, items iter.Seq2[event.Item, error]) (n int, digest string, err error) {
	switch _, _, loaded, err := j.ItemList(ctx); {
	case err != nil:
		return 0, "", err
	case loaded:
		return 0, "", fmt.Errorf("run %s has its item list already", j.run)
	}
	if err := j.execute("DELETE FROM items"); err != nil {
		return 0, "", err
	}
	l := loader{j: j, digest: sha256.New()}
	for item, err := range items {
		if err == nil {
			err = l.add(ctx, item)
		}
		if err != nil {
			return 0, "", err
		}
	}
	if err := l.store(); err != nil {
		return 0, "", err
	}
	digest = l.sum()
	err = j.transaction(func(c driver.Conn) error {
		if err := execSQL(c, "INSERT INTO meta VALUES ('items', ?)", named(int64(l.n))...); err != nil {
			return err
		}
		return execSQL(c, "INSERT INTO meta VALUES ('items_digest', ?)", named(digest)...)
	})
	if err != nil {
		return 0, "", err
	}
	return l.n, digest, nil
}

// loader gathers items and records them chunk by chunk. The lock on the
// connection is not held while the sequence works.
type loader struct {
	j      *Journal
	digest hash.Hash
	n      int
	chunk  []event.Item
	bytes  int
	args   []driver.NamedValue
}

func (l *loader) add(ctx context.Context, item event.Item) error {
	l.n++
	if item.Index != 0 && item.Index != l.n {
		return fmt.Errorf("item %d of the list has the index %d", l.n, item.Index)
	}
	item.Index = l.n
	addDigest(l.digest, item)
	l.chunk = append(l.chunk, item)
	l.bytes += len(item.Data)
	if len(l.chunk) < loadChunkItems && l.bytes < loadChunkBytes {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.store()
}

func (l *loader) store() error {
	if len(l.chunk) == 0 {
		return nil
	}
	err := l.j.transaction(func(c driver.Conn) (err error) {
		stmt, err := c.Prepare("INSERT INTO items VALUES (?, ?, ?)")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stmt.Close()) }()
		if l.args == nil {
			l.args = named(nil, nil, nil)
		}
		for _, item := range l.chunk {
			l.args[0].Value, l.args[1].Value, l.args[2].Value = int64(item.Index), optional(item.ID), item.Data
			if item.Data == nil {
				l.args[2].Value = []byte{}
			}
			if _, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), l.args); err != nil {
				return err
			}
		}
		return nil
	})
	clear(l.chunk)
	l.chunk, l.bytes = l.chunk[:0], 0
	return err
}

func (l *loader) sum() string { return "sha256:" + hex.EncodeToString(l.digest.Sum(nil)) }

// addDigest adds an item to the digest of a list: the length of the id as an
// unsigned varint, the id, and the same of the data.
func addDigest(h hash.Hash, item event.Item) {
	var buf [2 * binary.MaxVarintLen64]byte
	b := binary.AppendUvarint(buf[:0], uint64(len(item.ID)))
	b = append(b, item.ID...)
	b = binary.AppendUvarint(b, uint64(len(item.Data)))
	// A hash takes everything and fails never.
	h.Write(b)
	h.Write(item.Data)
}

// optional is NULL for an empty string.
func optional(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

// ItemList gives the number of items and the digest of the list, and whether
// a list is recorded at all.
func (r *Reader) ItemList(ctx context.Context) (n int, digest string, loaded bool, err error) {
	err = r.query(ctx, func(row []driver.Value) error {
		if text(row[0]) == "items" {
			n, loaded = int(integer(row[1])), true
		} else {
			digest = text(row[1])
		}
		return nil
	}, "SELECT key, value FROM meta WHERE key IN ('items', 'items_digest')")
	if err == nil && loaded && n < 0 {
		err = damaged(r.path, fmt.Sprintf("its list has %d items", n), nil)
	}
	return n, digest, loaded, err
}

// Item gives one item, from 1. ErrNoItem says that there is none.
func (r *Reader) Item(ctx context.Context, index int) (event.Item, error) {
	items, err := r.Items(ctx, index, 1)
	if err != nil {
		return event.Item{}, err
	}
	if len(items) == 0 || items[0].Index != index {
		return event.Item{}, fmt.Errorf("%w: %d", ErrNoItem, index)
	}
	return items[0], nil
}

// Items gives at most limit items from index from on, in order; none after the
// last. A list that is not wholly recorded has no items.
func (r *Reader) Items(ctx context.Context, from, limit int) ([]event.Item, error) {
	var out []event.Item
	err := r.query(ctx, func(row []driver.Value) error {
		out = append(out, event.Item{Index: int(integer(row[0])), ID: text(row[1]), Data: blob(row[2])})
		return nil
	}, "SELECT idx, id, data FROM items WHERE idx >= ? AND EXISTS (SELECT 1 FROM meta WHERE key = 'items') ORDER BY idx LIMIT ?",
		int64(from), int64(limit))
	return out, err
}

// ItemsAt gives the items of some places, without those that are not recorded, in no
// order.
func (r *Reader) ItemsAt(ctx context.Context, indexes []int) (map[int]event.Item, error) {
	out := map[int]event.Item{}
	for some := range slices.Chunk(indexes, maxPlaces) {
		args := make([]driver.Value, len(some))
		for i, index := range some {
			args[i] = int64(index)
		}
		err := r.query(ctx, func(row []driver.Value) error {
			it := event.Item{Index: int(integer(row[0])), ID: text(row[1]), Data: blob(row[2])}
			out[it.Index] = it
			return nil
		}, "SELECT idx, id, data FROM items WHERE EXISTS (SELECT 1 FROM meta WHERE key = 'items') AND idx IN (?"+strings.Repeat(", ?", len(some)-1)+")", args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maxPlaces is how many places one query asks for.
const maxPlaces = 500

// checkItems compares the list with its digest.
func (r *Reader) checkItems(ctx context.Context) error {
	n, digest, loaded, err := r.ItemList(ctx)
	if err != nil || !loaded {
		return err
	}
	l := loader{digest: sha256.New()}
	for next := 1; next <= n; {
		items, err := r.Items(ctx, next, loadChunkItems)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			break
		}
		for _, item := range items {
			addDigest(l.digest, item)
		}
		next = items[len(items)-1].Index + 1
	}
	if l.sum() != digest {
		return damaged(r.path, "the item list does not fit its digest", nil)
	}
	return nil
}
