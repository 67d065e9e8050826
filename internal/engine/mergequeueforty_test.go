package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proof"
	"github.com/bide-dev/bide/internal/worktree"
)

// TestFortyBranches merges 40 branches with culprits of every kind, eight at a time, in
// batches of eight. The innocent ones land, and each culprit is a dead letter that says
// why. It gives a figure for the merge queue's page (BIDE_FIGURES=1). TestMergeQueue is its
// short form.
func TestFortyBranches(t *testing.T) {
	if os.Getenv("BIDE_FIGURES") == "" {
		t.Skip("BIDE_FIGURES=1 runs it")
	}
	b := queueBench(t)
	what := map[int]string{ // the others are innocent
		4: "bad", 17: "bad", 33: "bad",
		6: "shared", 20: "shared", 35: "shared", // one of them lands
		9: "renamed", 28: "new", // new breaks the build once renamed is merged, or the other way round
		12: "left", 13: "right", // they break it together
		25: "protected",
	}
	var list []string
	for i := range 40 {
		do := map[string]string{
			"": fmt.Sprintf("echo %d >src/ok-%d", i, i), "bad": fmt.Sprintf("echo bad >src/b-%d", i), "shared": fmt.Sprintf("echo %d >src/shared", i),
			"renamed": "echo x >src/renamed", "new": "echo x >src/new", "left": "echo x >src/left", "right": "echo x >src/right", "protected": "echo x >keep_test.go",
		}[what[i]]
		list = append(list, fmt.Sprintf("{id: i%02d, do: %q}", i, do))
	}
	flow := strings.Replace(queueFlow(8), "batch: 4", "batch: 8", 1)
	from, to := strings.Index(flow, "input: ["), strings.Index(flow, "\n  max_parallel")
	r := b.run(flow[:from] + "input: [" + strings.Join(list, ", ") + "]" + flow[to:])
	r.status(event.CompletedWithFailures)
	if err := sh(b.dir, "sh check.sh"); err != nil {
		t.Errorf("main does not pass: %v", err)
	}
	why := map[string]string{}
	landed := map[string]bool{}
	for _, e := range r.events {
		if e.Type == event.ItemFinished {
			why[e.Item], landed[e.Item] = e.Class+": "+e.Message, e.Status == event.Succeeded
		}
	}
	together := map[string]int{}
	for i := range 40 {
		id := fmt.Sprintf("i%02d", i)
		switch kind := what[i]; kind {
		case "":
			if got := b.text(fmt.Sprintf("src/ok-%d", i)); !landed[id] || got != fmt.Sprintf("%d\n", i) {
				t.Errorf("%s is innocent: %q; its file is %q", id, why[id], got)
			}
		case "bad":
			if landed[id] || !strings.HasPrefix(why[id], "evidence: the check ") {
				t.Errorf("%s: %q", id, why[id])
			}
		case "protected":
			if landed[id] || !strings.HasPrefix(why[id], "evidence: it changed keep_test.go") {
				t.Errorf("%s: %q", id, why[id])
			}
		default:
			group := map[string]string{"new": "renamed", "right": "left"}[kind]
			if group == "" {
				group = kind
			}
			if landed[id] {
				together[group]++
			} else if want := map[bool]string{true: "conflict: ", false: "merge_check: it is good without item"}[kind == "shared"]; !strings.HasPrefix(why[id], want) {
				t.Errorf("%s: %q, want %q", id, why[id], want)
			}
		}
	}
	for _, group := range []string{"shared", "renamed", "left"} {
		if together[group] != 1 {
			t.Errorf("%d of %s landed, want one", together[group], group)
		}
	}
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	verify := func() []proof.Problem {
		t.Helper()
		rd, err := store.Read("")
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Close()
		p, err := proof.Read(t.Context(), rd)
		if err != nil {
			t.Fatal(err)
		}
		repo, err := worktree.Open(t.Context(), b.dir)
		if err != nil {
			t.Fatal(err)
		}
		problems, err := proof.Verify(t.Context(), repo, p)
		if err != nil {
			t.Fatal(err)
		}
		return problems
	}
	if problems := verify(); len(problems) > 0 {
		t.Errorf("the proof: %+v", problems)
	}
	// One byte of one piece of evidence is changed, and put back.
	files, err := filepath.Glob(filepath.Join(b.home, "runs", "*", "logs", "*", "*"))
	more, _ := filepath.Glob(filepath.Join(b.home, "runs", "*", "logs", "*"))
	files = append(files, more...)
	i := slices.IndexFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(name, ".evidence-") && len(text) > 0
	})
	if err != nil || i < 0 {
		t.Fatalf("no evidence is found among %d files: %q", len(files), files)
	}
	text, err := os.ReadFile(files[i])
	if err != nil {
		t.Fatal(err)
	}
	changed := slices.Clone(text)
	changed[0] ^= 1
	if err := os.WriteFile(files[i], changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := verify(); len(problems) == 0 {
		t.Errorf("one byte of %s is changed, and the proof holds", files[i])
	}
	if err := os.WriteFile(files[i], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := verify(); len(problems) > 0 {
		t.Errorf("what was put back: %+v", problems)
	}
	who := "git -c user.name=x -c user.email=x@y "
	for what, do := range map[string]string{
		"the message of the last merge is changed": who + "commit -q --amend -m changed",
		"the tree of the last merge is changed":    "echo y >src/ok-0 && " + who + "commit -qa --amend -m changed",
		"the history is written anew":              who + "checkout -q --orphan anew && " + who + "commit -qam anew && git branch -f main anew",
	} {
		if err := sh(b.dir, "git tag -f was main && "+do); err != nil {
			t.Fatal(err)
		}
		if problems := verify(); len(problems) == 0 {
			t.Errorf("%s, and the proof holds", what)
		}
		if err := sh(b.dir, "git checkout -q -f main 2>/dev/null; git reset -q --hard was; git branch -q -D anew 2>/dev/null; true"); err != nil {
			t.Fatal(err)
		}
		if problems := verify(); len(problems) > 0 {
			t.Errorf("%s, and put back: %+v", what, problems)
		}
	}
}
