package storetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
)

// Conform holds a store against what Objects promises. A folder gets so many objects.
func Conform(t *testing.T, o cluster.Objects, many int) {
	place := func(t *testing.T, name string, folders ...string) {
		t.Helper()
		var err error
		if d, ok := o.(cluster.Directory); ok {
			err = d.Found(name, folders, "first", []byte("first"))
		} else {
			err = o.Create(name+"/first", writes([]byte("first")))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(t *testing.T, name, text string) {
		t.Helper()
		if err := o.Create(name, writes([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	get := func(t *testing.T, name string, from int64) string {
		t.Helper()
		f, err := o.Read(name, from)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	gone := func(t *testing.T, name string) {
		t.Helper()
		if f, err := o.Read(name, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = f.Close()
			}
		}
	}

	t.Run("one creates", func(t *testing.T) {
		place(t, "race", "a")
		for n := range 12 {
			name := fmt.Sprintf("race/a/%d", n)
			var mu sync.Mutex
			var made []string
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					text := strings.Repeat(fmt.Sprint(i), 1000+i)
					if n%2 == 0 {
						text = strings.Repeat("same", 1000) // and still one of them has made it
					}
					err := o.Create(name, writes([]byte(text)))
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						made = append(made, text)
					} else if !errors.Is(err, fs.ErrExist) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got := get(t, name, 0); len(made) != 1 || got != made[0] {
				t.Errorf("%d have created %s, and it has %d bytes", len(made), name, len(got))
			}
		}
	})
	t.Run("whole or not at all", func(t *testing.T) {
		place(t, "half", "a")
		broken := errors.New("no")
		err := o.Create("half/a/1", func(w io.Writer) error {
			_, err := w.Write(make([]byte, 100_000))
			return errors.Join(err, broken)
		})
		if err == nil {
			t.Error("it was created")
		}
		gone(t, "half/a/1")
		if names, err := o.List("half/a"); err != nil || len(names) != 0 {
			t.Errorf("%q, %v", names, err)
		}
		put(t, "half/a/1", "whole")
		if err := o.Create("half/a/1", writes([]byte("other"))); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		if got := get(t, "half/a/1", 0); got != "whole" {
			t.Errorf("%q", got)
		}
	})
	t.Run("sizes and offsets", func(t *testing.T) {
		place(t, "size", "a")
		random := rand.NewChaCha8([32]byte{1})
		for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, 20 << 20} {
			text := make([]byte, size)
			_, _ = random.Read(text) // it never fails
			name := fmt.Sprintf("size/a/%d", size)
			put(t, name, string(text))
			for _, from := range []int{0, 1, size / 2, size - 1, size, size + 7} {
				if from = max(from, 0); size > 2<<20 && from < size/2 {
					continue // the smaller ones have shown it
				}
				if got := get(t, name, int64(from)); got != string(text[min(from, size):]) {
					t.Errorf("of %d bytes from %d on there are %d", size, from, len(got))
				}
			}
		}
		gone(t, "size/a/none")
		gone(t, "nowhere/a/none")
	})
	t.Run("lists", func(t *testing.T) {
		place(t, "list", "a", "ab", "b", "b/c", "empty")
		var want []string
		for n := range many {
			want = append(want, fmt.Sprintf("%05d", n*7))
		}
		var wg sync.WaitGroup
		for part := range slices.Chunk(want, (many+7)/8) {
			wg.Go(func() {
				for _, name := range part {
					if err := o.Create("list/a/"+name, writes(nil)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		odd := []string{"%2f", "-", "0[1].x@2", "Z", "a b", "a,b", "a~b", "attempt2.map[0].1.stdout", "ä", "_"}
		for _, name := range odd {
			put(t, "list/ab/"+name, name)
		}
		put(t, "list/b/c/x", "")
		put(t, "list/b/c/y", "")
		put(t, "list/b/d", "")
		slices.Sort(odd)
		for folder, want := range map[string][]string{"list/a": want, "list/ab": odd, "list/b": {"c", "d"}, "list/b/c": {"x", "y"}, "list/empty": nil} {
			if got, err := o.List(folder); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s has %d names, want %d: %.200q, %v", folder, len(got), len(want), got, err)
			}
		}
		for _, name := range odd {
			if got := get(t, "list/ab/"+name, 0); got != name {
				t.Errorf("%q is %q", name, got)
			}
		}
		if got, err := o.List("list/none"); len(got) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("logs", func(t *testing.T) {
		place(t, "log", "a")
		log, err := cluster.BeginLog(o, "log/a/1.log")
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for n := range 30 {
			text := bytes.Repeat([]byte{byte(n)}, n*n)
			want = append(want, text...)
			if _, err := log.Write(text); err != nil {
				t.Fatal(err)
			}
			if n%3 == 0 {
				if err := log.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(log.Sync(), log.Close()); err != nil {
			t.Fatal(err)
		}
		other, err := cluster.BeginLog(o, "log/a/1.log")
		if err == nil {
			_, err = other.Write([]byte("other"))
			err = errors.Join(err, other.Sync())
		}
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second writer: %v", err)
		}
		for _, from := range []int{0, 1, 100, 5000, len(want) - 1, len(want), len(want) + 1} {
			f, err := cluster.ReadLog(o, "log/a/1.log", int64(from))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil || !bytes.Equal(got, want[min(from, len(want)):]) {
				t.Errorf("from %d: %d bytes of %d, %v", from, len(got), len(want), err)
			}
		}
		if _, err := cluster.ReadLog(o, "log/a/2.log", 0); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if names, err := o.List("log/a"); err != nil || !slices.Equal(names, []string{"1.log"}) {
			t.Errorf("%q, %v", names, err)
		}
	})
	t.Run("remove", func(t *testing.T) {
		place(t, "gone/1", "a")
		place(t, "gone/10", "a")
		for n := range cmp.Or(many/2, 1) {
			put(t, fmt.Sprintf("gone/1/a/%d", n), "x")
		}
		put(t, "gone/10/a/1", "stays")
		for range 2 {
			if err := o.Remove("gone/1"); err != nil {
				t.Fatal(err)
			}
		}
		gone(t, "gone/1/first")
		gone(t, "gone/1/a/0")
		if got := get(t, "gone/10/a/1", 0); got != "stays" {
			t.Errorf("%q", got)
		}
		if names, err := o.List("gone"); err != nil || !slices.Equal(names, []string{"10"}) {
			t.Errorf("%q, %v", names, err)
		}
	})
}

func writes(text []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(text); return err }
}
