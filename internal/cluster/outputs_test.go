package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// flat is a directory that is used as a bucket is: nothing is reached past its verbs.
type flat struct{ d dir }

func (f flat) Create(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(f.d.Path(path.Dir(name)), 0o700); err != nil {
		return err
	}
	return f.d.Create(name, write)
}

func (f flat) Read(name string, from int64) (io.ReadCloser, error) { return f.d.Read(name, from) }

func (f flat) List(folder string) ([]string, error) {
	names, err := f.d.List(folder)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}

func (f flat) Remove(place string) error { return f.d.Remove(place) }

// buckets are the directories of the buckets of these tests, by the text of the store.
var buckets sync.Map

// inBucket gives a setting whose store is no directory for it.
func inBucket(t *testing.T, bucket string) *setting {
	t.Helper()
	s := newSetting(t)
	text := "s3:" + bucket
	buckets.Store(text, dir(t.TempDir()))
	Register("s3", func(text string) (Objects, error) {
		d, _ := buckets.Load(text)
		return flat{d.(dir)}, nil
	})
	var err error
	if s.store, err = OpenStore(text); err != nil {
		t.Fatal(err)
	}
	return s
}

const large = `
name: large
mode: mapreduce
setup:
  - shell: seq 20000
    capture_output: numbers
map:
  input: items.jsonl
  max_parallel: 3
  agent_template:
    - shell: |
        echo "${numbers}" | cksum
        seq ${item.n} 12000
        test "${item.n}" -ne 2 || { echo "the failure of 2" >&2; exit 1; }
reduce:
  - shell: |
      echo "${numbers}" | cksum > result
      grep -o '"output":"[^"]*' "$BIDE_RESULTS_FILE" | cksum >> result
`

// TestLargeOutputs: outputs that are too large for the record are there for the steps
// that read them and in each home, also where the store is no directory.
func TestLargeOutputs(t *testing.T) {
	t.Parallel()
	told := map[string]string{}
	for name, s := range map[string]*setting{"dir": newSetting(t), "bucket": inBucket(t, "large-outputs")} {
		s.write("items.jsonl", itemsText(6))
		run := s.submit(s.options(large))
		if status := s.drive(run); status != event.CompletedWithFailures {
			t.Fatalf("%s: %s", name, status)
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "result"))
		if err != nil {
			t.Fatal(err)
		}
		told[name] = string(text)
		s.events(run)
		r, err := s.home.Read(run)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			files, err := r.OutputFiles(i)
			if i == 0 {
				files, err = filepath.Glob(filepath.Join(r.LogDir(), "run", "*"))
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range files {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				told[name] += fmt.Sprintf("%d %s: %d bytes, %d lines\n", i, filepath.Base(path), len(text), strings.Count(string(text), "\n"))
			}
		}
		for _, e := range s.events(run) {
			if strings.Contains(string(e.Data), carried) || strings.Contains(string(e.Data), "bide-worker-") {
				at := max(strings.Index(string(e.Data), carried), strings.Index(string(e.Data), "bide-worker-"))
				t.Errorf("%s, %s of item %d, step %s: %.300s", name, e.Type, e.Index, e.Step, e.Data[max(at-100, 0):])
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(told["dir"])
	if told["dir"] != told["bucket"] || !strings.Contains(told["dir"], "lines") {
		t.Errorf("in a directory:\n%s\nin a bucket:\n%s", told["dir"], told["bucket"])
	}
}

// TestManyWorkersInBucket is TestARunOnManyWorkers in a store that is no directory.
func TestManyWorkersInBucket(t *testing.T) {
	t.Parallel()
	s := inBucket(t, "many-workers")
	s.kill = 4
	const n = 12
	s.write("items.jsonl", itemsText(n))
	run := s.submit(s.options(flaky))
	if status := s.drive(run); status != event.Succeeded {
		t.Fatalf("%s: %+v", status, s.events(run))
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "result")); err != nil || string(text) != "12 of 12, prepared\n" {
		t.Errorf("%q, %v", text, err)
	}
	last := map[int]bool{}
	for _, e := range s.events(run) {
		if e.Type == event.ItemFinished && e.Status != event.Interrupted {
			if last[e.Index] {
				t.Errorf("item %d ends twice", e.Index)
			}
			last[e.Index] = true
		}
	}
	if len(last) != n {
		t.Errorf("%d items have ended", len(last))
	}
}

// TestRepairInBucket: a part of a log that is lost, cut short or damaged is found, and
// what was behind the damage runs again after a repair, and nothing else.
func TestRepairInBucket(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string, text []byte) error{
		"lost":    func(path string, _ []byte) error { return os.Remove(path) },
		"cut":     func(path string, text []byte) error { return os.WriteFile(path, text[:len(text)/2], 0o600) },
		"damaged": func(path string, text []byte) error { text[len(text)/2] ^= 8; return os.WriteFile(path, text, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inBucket(t, "repair-"+name)
			const n = 6
			s.write("items.jsonl", itemsText(n))
			run := s.submit(s.options("mode: mapreduce\nmap:\n  input: items.jsonl\n  max_parallel: 1\n  agent_template:\n    - shell: echo x >> ran\n"))
			if status := s.drive(run); status != event.Succeeded {
				t.Fatal(status)
			}
			r := s.store.Run(run)
			if rep, err := r.Verify(); err != nil || len(rep.Damaged) > 0 {
				t.Fatalf("%+v, %v", rep, err)
			}
			parts, err := filepath.Glob(s.store.o.(flat).d.Path(r.log(LaneLog(1, 1))) + "/*")
			if err != nil || len(parts) < 2 {
				t.Fatalf("%q, %v", parts, err)
			}
			ended := func(length int64) (n int) {
				_, err := r.readLog(LaneLog(1, 1), 0, length, func(text []byte, _ int64) error {
					n += strings.Count(string(text), `"item_finished"`)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			had := ended(-1)
			text, err := os.ReadFile(parts[1])
			if err == nil {
				err = damage(parts[1], text)
			}
			if err != nil {
				t.Fatal(err)
			}
			rep, err := r.Repair(context.Background(), "repair", time.Now())
			if err != nil || len(rep.Damaged) != 1 || rep.Damaged[0].Name != r.log(LaneLog(1, 1)) {
				t.Fatalf("%+v, %v", rep, err)
			}
			kept := ended(rep.Damaged[0].Keep.Length)
			if kept == had {
				t.Fatalf("%d items are kept of %d", kept, had)
			}
			if status := s.driveFrom(run, s.begin(run)); status != event.Succeeded {
				t.Fatal(status)
			}
			ran, err := os.ReadFile(filepath.Join(s.dir, "ran"))
			if again := strings.Count(string(ran), "\n") - n; err != nil || again != had-kept {
				t.Errorf("%d items have run again, and %d of %d were kept: %v", again, kept, had, err)
			}
		})
	}
}

// TestDamagedOutput: an output in a bucket that is lost or damaged is found; after a repair
// each home shows the run again, and what printed it runs again, and nothing else.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"lost": os.Remove,
		"damaged": func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				text[len(text)/2] ^= 8
				err = os.WriteFile(path, text, 0o600)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inBucket(t, "output-"+name)
			const n = 3
			s.write("items.jsonl", itemsText(n))
			run := s.submit(s.options("mode: mapreduce\nmap:\n  input: items.jsonl\n  max_parallel: 1\n  agent_template:\n    - shell: echo x >> ran; seq ${item.n} 12000\n"))
			if status := s.drive(run); status != event.Succeeded {
				t.Fatal(status)
			}
			r := s.store.Run(run)
			var list []string
			if err := filepath.WalkDir(s.store.o.(flat).d.Path(r.name("logs")), func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
					list = append(list, path)
				}
				return err
			}); err != nil || len(list) < n {
				t.Fatalf("%q, %v", list, err)
			}
			object := list[n-1]
			if err := damage(object); err != nil {
				t.Fatal(err)
			}
			fresh := func() error {
				home, err := journal.OpenStore(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				home.Refresh = Refresh(home)
				if err := s.store.Adopt(home); err != nil {
					t.Fatal(err)
				}
				reader, err := home.Read(run)
				if err == nil {
					err = reader.Close()
				}
				return err
			}
			if err := fresh(); err == nil || !strings.Contains(err.Error(), "bide store repair") {
				t.Errorf("a new home: %v", err)
			}
			rep, err := r.Verify()
			if err != nil || len(rep.Damaged) != 1 || !strings.HasSuffix(object, strings.TrimPrefix(rep.Damaged[0].Name, "runs/")) || rep.Damaged[0].Keep == nil {
				t.Fatalf("%+v, %v", rep, err)
			}
			if _, err := r.Repair(t.Context(), "repair", time.Now()); err != nil {
				t.Fatal(err)
			}
			if rep, err := r.Verify(); err != nil || len(rep.Damaged) != 0 {
				t.Errorf("%+v, %v", rep, err)
			}
			if status := s.driveFrom(run, s.begin(run)); status != event.Succeeded {
				t.Error(status)
			}
			if err := fresh(); err != nil {
				t.Error(err)
			}
			ran, err := os.ReadFile(filepath.Join(s.dir, "ran"))
			if again := strings.Count(string(ran), "\n") - n; err != nil || again < 1 || again > n {
				t.Errorf("%d items have run again: %v", again, err)
			}
			s.events(run)
			reader, err := s.home.Read(run)
			if err != nil {
				t.Fatal(err)
			}
			for item := 1; item <= n; item++ {
				files, err := reader.OutputFiles(item)
				if err != nil || len(files) != 1 {
					t.Fatalf("%q, %v", files, err)
				}
				if text, err := os.ReadFile(files[0]); err != nil || strings.Count(string(text), "\n") != 12002-item {
					t.Errorf("the output of item %d has %d lines: %v", item, strings.Count(string(text), "\n"), err)
				}
			}
			if err := reader.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
