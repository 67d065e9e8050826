package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/cmd/bide-temporal/database/pgtest"
	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// buckets is an S3 server in this process, from the first test that needs it to the end of
// the process. The environment names it, for this process and for those that it starts.
var buckets struct {
	sync.Once
	*httptest.Server
	backend gofakes3.Backend
}

// bucketOf makes a bucket there.
func bucketOf(t *testing.T, name string) {
	t.Helper()
	buckets.Do(func() {
		buckets.backend = s3mem.New()
		buckets.Server = httptest.NewServer(gofakes3.New(buckets.backend).Server())
		for key, value := range map[string]string{"AWS_ENDPOINT_URL": buckets.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"} {
			if err := os.Setenv(key, value); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := buckets.backend.CreateBucket(name); err != nil {
		t.Fatal(err)
	}
}

// home runs bide on a machine that has seen nothing yet of a store.
type home struct{ bin, dir, store string }

func newHome(t *testing.T, store cluster.Store) home {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := home{t.TempDir(), t.TempDir(), store.String()}
	for _, name := range []string{"bide", "bide-temporal"} {
		if err := os.Symlink(self, filepath.Join(h.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h home) must(t *testing.T, args string) string {
	t.Helper()
	status, text := h.bide(args)
	if status != 0 {
		t.Errorf("bide %s: exit status %d\n%s", args, status, text)
	}
	return text
}

// bide gives the exit status of a command, and what it prints.
func (h home) bide(args string) (status int, text string) {
	cmd := exec.Command(filepath.Join(h.bin, "bide"), strings.Fields(args)...)
	cmd.Env = append(os.Environ(), "PATH="+h.bin+":"+os.Getenv("PATH"), "BIDE_HOME="+h.dir, "BIDE_STORE="+h.store)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestStores: a run in a bucket or in a database comes to the same end as one in a
// directory, and a home shows it.
func TestStores(t *testing.T) {
	t.Parallel()
	withoutServer(t)
	registerStores()
	for name, open := range map[string]func(t *testing.T) string{
		"s3":       func(t *testing.T) string { bucketOf(t, "runs-workflow"); return "s3:runs-workflow/deep/below" },
		"postgres": func(t *testing.T) string { return pgtest.Start(t).URL },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := cluster.OpenStore(open(t))
			if err != nil {
				t.Fatal(err)
			}
			p := newPlaceIn(t, store, "flow.yml", slowRetry, 12, nil)
			p.env.ExecuteWorkflow(Run, p.input())
			if got := p.result(); got != event.CompletedWithFailures {
				t.Fatal(got)
			}
			if text, err := os.ReadFile(filepath.Join(p.dir, "result")); err != nil || string(text) != "11 of 12\n" {
				t.Errorf("%q, %v", text, err)
			}
			home := newHome(t, store)
			committed(t, store, home)
			for _, c := range []struct{ args, says string }{
				{"runs", "waits"},
				{"show " + p.run, "11 succeeded"},
				{"logs " + p.run, "11"},
				{"dlq list " + p.run, "i5"},
				{"store verify", "undamaged"},
				{"store repair " + p.run, "is undamaged: nothing was changed"},
			} {
				if text := home.must(t, c.args); !strings.Contains(text, c.says) {
					t.Errorf("bide %s does not say %q:\n%s", c.args, c.says, text)
				}
			}
			if s := p.summary(); s.Status != event.CompletedWithFailures || s.Items.Succeeded != 11 || s.Items.DeadLettered != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// committing is a file whose items commit; one of them at its second attempt.
const committing = `
name: committing
mode: mapreduce
isolation: worktree
setup:
  - shell: echo prepared > notes.txt
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: |
        test "$(cat notes.txt)-$BIDE_ITEM-$BIDE_ATTEMPT" != prepared-i1-1 || exit 1
        echo "$BIDE_ITEM" > "$BIDE_ITEM.txt"
        git add -A && git commit -q -m "work on $BIDE_ITEM"
  evidence:
    checks: ['cat ${item.id}.txt']
    paths: [notes.txt, 'i*.txt']
  retry_config: {attempts: 2, backoff: fixed, initial_delay: 6h, max_delay: 6h}
reduce:
  - shell: ls i*.txt > list; git add list; git commit -q -m "${map.successful} of ${map.total}"
`

// committed has a run whose items commit in a store, and merges it on a machine that has
// seen nothing of it: each commit is there once.
func committed(t *testing.T, store cluster.Store, home home) {
	p := newPlaceIn(t, store, "commit.yml", committing, 3, nil)
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.CompletedWithFailures { // it is not merged yet
		t.Fatalf("%s: %s", got, p.why())
	}
	home.must(t, "worktree merge "+p.run+" --path "+p.dir)
	got := strings.Split(p.git("log", "--no-merges", "--format=%s", "main"), "\n")
	slices.Sort(got)
	if want := "3 of 3|bide: committing|start|work on i0|work on i1|work on i2"; strings.Join(got, "|") != want {
		t.Errorf("commits: %q, want %q", got, want)
	}
	if text := home.must(t, "proof --verify "+p.run); !strings.Contains(text, "all is as it is on record") || strings.Count(text, "cat ") != 3 {
		t.Errorf("%s", text)
	}
	if text := p.git("show", "main:list", "main:notes.txt"); text != "i0.txt\ni1.txt\ni2.txt\nprepared" {
		t.Errorf("%q", text)
	}
}

// TestMergeOfARunThatIsNotAtItsEnd: as on one machine, what has ended of a map that was stopped is merged, and
// the status is 3; a run that failed in a step of its own is refused.
func TestMergeOfARunThatIsNotAtItsEnd(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, "commit.yml", committing, 3, nil)
	p.env.RegisterDelayedCallback(func() { p.env.SignalWorkflow(stopSignal, StopRequest{}) }, time.Hour)
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.Interrupted {
		t.Fatalf("%s: %s", got, p.why())
	}
	status, text := newHome(t, p.store).bide("worktree merge " + p.run + " --path " + p.dir)
	if status != 3 || !strings.Contains(text, "was interrupted: 1 item has no end yet, so the exit status is 3") {
		t.Errorf("exit status %d: %s", status, text)
	}
	got := strings.Split(p.git("log", "--no-merges", "--format=%s", "main"), "\n")
	slices.Sort(got)
	if want := "start|work on i0|work on i2"; strings.Join(got, "|") != want {
		t.Errorf("commits: %q, want %q", got, want)
	}

	p = newPlaceOf(t, "commit.yml", strings.Replace(committing, "${map.total}\"", "${map.total}\"; exit 1", 1), 2, nil)
	p.env.ExecuteWorkflow(Run, p.input())
	if got := p.result(); got != event.Failed {
		t.Fatalf("%s: %s", got, p.why())
	}
	status, text = newHome(t, p.store).bide("worktree merge " + p.run + " --path " + p.dir)
	if status != 1 || !strings.Contains(text, "has failed in its step reduce[0]: nothing is merged") {
		t.Errorf("exit status %d: %s", status, text)
	}
	if got := p.git("log", "--format=%s", "main"); got != "start" {
		t.Errorf("commits: %q", got)
	}
}
