package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// agents are stand-ins for agents, which commit, in a bucket.
const agents = `
name: agents
mode: mapreduce
isolation: worktree
agents: {codex: {command: [sh, agent.sh, '${prompt}']}}
map:
  input: items.jsonl
  max_parallel: 12
  agent_template:
    - codex: fix ${item.id}
      commit_required: true
  retry_config: {attempts: 3, backoff: fixed, initial_delay: 100ms}
reduce:
  - shell: ls i*.txt > list; git add list; git commit -q -m "${map.successful} of ${map.total}"
`

// TestAgentsInABucket: agents of three workers commit, in a run whose store is a bucket, and
// one worker is killed with what it has in work. The branch that comes home has the commit of
// each item once, and no more agents ran twice than it had slots. In the long form they are 100;
// in the short one the worker is asked to leave, as it takes a minute to find out that one is gone.
func TestAgentsInABucket(t *testing.T) {
	t.Parallel()
	const workers, slots = 3, 4
	items, long := 16, os.Getenv("BIDE_CLUSTER") == "long"
	if long {
		items = 100
	}
	bucketOf(t, "agents-commit")
	registerStores()
	s := newSite(t, agents, items)
	s.env = append(s.env, "BIDE_STORE=s3:agents-commit/below")
	ran := filepath.Join(s.root, "ran")
	agent := fmt.Sprintf("id=${1#fix }\necho $id >> %s\nsleep 0.5\necho $id > $id.txt\ngit add $id.txt && git commit -q -m \"work on $id\"\nprintf 'tokens used\\n1,000\\n' >&2\n", ran)
	if err := os.WriteFile(filepath.Join(s.dir, "agent.sh"), []byte(agent), 0o644); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = s.dir, s.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "Ada")
	git("config", "user.email", "ada@example.org")
	git("add", "-A")
	git("commit", "-q", "-m", "start")
	first := s.worker(slots)
	for range workers - 1 {
		s.worker(slots)
	}
	begin := time.Now()
	cmd, out := s.follow("run", "--on", "temporal", "-y", "flow.yml")
	s.wait("some agents", func() bool { text, _ := os.ReadFile(ran); return strings.Count(string(text), "\n") > items/3 })
	if long {
		s.end(first)
	} else if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.status(cmd); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	took := time.Since(begin)
	if sum := s.summary(); sum.Status != event.CompletedWithFailures && sum.Status != event.Succeeded || sum.Items.Succeeded != items {
		t.Errorf("%+v", sum)
	}
	s.once(items)
	want := []string{"start", fmt.Sprintf("%d of %[1]d", items)}
	for i := range items {
		id := fmt.Sprintf("i%d", i)
		want = append(want, "work on "+id)
		if text := git("show", "main:"+id+".txt"); text != id {
			t.Errorf("%s: %q", id, text)
		}
	}
	got := strings.Split(git("log", "--no-merges", "--format=%s", "main"), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("commits: %q\nwant: %q", got, want)
	}
	text, err := os.ReadFile(ran)
	if err != nil {
		t.Fatal(err)
	}
	again := strings.Count(string(text), "\n") - items
	t.Logf("%d agents in %.1f s, %d began twice", items, took.Seconds(), again)
	if again < 0 || again > slots {
		t.Errorf("%d agents began twice, with %d slots killed", again, slots)
	}
	if text := s.must("store", "verify"); !strings.Contains(text, "undamaged") {
		t.Error(text)
	}
}
