package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
)

// unchangedFlow works on three files; each item says that it ran.
const unchangedFlow = `
name: each
mode: mapreduce
map:
  input: [a.txt, b.txt, c.txt]
  skip_unchanged: true
  max_parallel: 1
  agent_template:
    - shell: "echo ${item} >> $EV/ran; cat ${item}"
reduce:
  - write_file: {path: results, content: "${map.results_json}"}
  - write_file: {path: counts, content: "${map.successful} of ${map.total}, ${map.unchanged} unchanged, ${map.failed} failed"}
`

// again gives a bench on which unchangedFlow has run once.
func again(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		b.write(name, "text of "+name)
	}
	b.run(unchangedFlow).status(event.Succeeded)
	b.ranItems("a.txt b.txt c.txt")
	return b
}

// ranItems checks which items have run since it was last called, in order of their names.
func (b *bench) ranItems(want string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.ev, "ran"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	names := strings.Fields(string(text))
	slices.Sort(names)
	if got := strings.Join(names, " "); got != want {
		b.t.Errorf("%q ran, want %q", got, want)
	}
	if err := os.RemoveAll(filepath.Join(b.ev, "ran")); err != nil {
		b.t.Fatal(err)
	}
}

// compared gives what a run has said about its items.
func (r *ran) compared() string {
	r.t.Helper()
	list := r.of(event.ItemsCompared)
	if len(list) != 1 {
		r.t.Fatalf("there are %d items_compared, want 1%s", len(list), r.story())
	}
	return list[0].Message
}

func TestUnchanged(t *testing.T) {
	b := again(t)
	first := b.ranRun(t)
	r := b.run(unchangedFlow)
	r.status(event.Succeeded)
	b.ranItems("")
	if want := (event.ItemCounts{Total: 3, Unchanged: 3}); r.sum.Items != want {
		t.Errorf("the counts are %+v, want %+v", r.sum.Items, want)
	}
	if got, want := r.compared(), "3 of 3 items are unchanged since run "+first; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if r.sum.ExitStatus() != 0 {
		t.Errorf("exit status %d", r.sum.ExitStatus())
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	var results []struct {
		Item, Output, Status string
		Success              bool
	}
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(results) != 3 || results[1].Item != "b.txt" || results[1].Output != "text of b.txt" || results[1].Status != "unchanged" || !results[1].Success {
		t.Errorf("map.results is %+v", results)
	}
	if got, _ := os.ReadFile(filepath.Join(b.dir, "counts")); string(got) != "3 of 3, 3 unchanged, 0 failed" {
		t.Errorf("the counts of reduce are %q", got)
	}

	// The next run knows what was taken over, and says since when.
	if err := b.store().Remove(first); err != nil {
		t.Fatal(err)
	}
	r = b.run(unchangedFlow)
	b.ranItems("")
	if got, want := r.compared(), "3 of 3 items are unchanged since run "+first; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	b.opt.All = true
	r = b.run(unchangedFlow)
	b.ranItems("a.txt b.txt c.txt")
	if got := r.compared(); !strings.Contains(got, "all 3 items run") {
		t.Errorf("with All it says %q", got)
	}
	b.opt.All = false
	b.run(unchangedFlow)
	b.ranItems("")
}

func (b *bench) store() *journal.Store {
	b.t.Helper()
	s, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// ranRun is the id of the last run.
func (b *bench) ranRun(t *testing.T) string {
	t.Helper()
	id, err := b.store().Find("")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestChanged changes one thing in each row.
func TestChanged(t *testing.T) {
	const all = "a.txt b.txt c.txt"
	for _, c := range []struct {
		name   string
		before func(b *bench) string // makes a first run, if that has another file
		change func(b *bench) string // gives the file of the second run
		runs   string
		why    string // why b.txt runs
		says   string
	}{
		{"a file", nil, func(b *bench) string { b.write("b.txt", "other"); return unchangedFlow }, "b.txt", "b.txt has changed", "2 of 3 items are unchanged since run ID; 1 run: 1 whose files changed"},
		{"a file is gone", func(b *bench) string { return strings.Replace(unchangedFlow, "cat ${item}", "true", 1) },
			func(b *bench) string {
				b.output("rm b.txt")
				return strings.Replace(unchangedFlow, "cat ${item}", "true", 1)
			}, "b.txt", "b.txt has changed", "1 run: 1 whose files changed"},
		{"a file is touched", nil, func(b *bench) string { b.output("touch b.txt"); return unchangedFlow }, "", "", "3 of 3"},
		{"a step", nil, func(b *bench) string { return strings.Replace(unchangedFlow, "; cat", " && cat", 1) }, all, "its steps have changed", "3 whose steps changed"},
		{"a step is written in another way", nil, func(b *bench) string {
			return strings.Replace(unchangedFlow, "    - shell: ", "    # what is done\n    - description: for people\n      shell: ", 1)
		}, "", "", "3 of 3"},
		{"a retry", nil, func(b *bench) string {
			return strings.Replace(unchangedFlow, "    - shell: ", "    - retry: {attempts: 2, retry_on: [network]}\n      shell: ", 1)
		}, all, "its steps have changed", "3 whose steps changed"},
		{"reduce", nil, func(b *bench) string { return unchangedFlow + "  - shell: 'true'\n" }, "", "", "3 of 3"},
		{"the list", nil, func(b *bench) string {
			b.write("d.txt", "d")
			return strings.Replace(unchangedFlow, "[a.txt, b.txt", "[d.txt, b.txt, a.txt", 1)
		}, "d.txt", "", "3 of 4 items are unchanged since run ID; 1 run: 1 new"},
		{"twins", func(b *bench) string { return strings.Replace(unchangedFlow, "[a.txt,", "[a.txt, a.txt,", 1) },
			func(b *bench) string { return strings.Replace(unchangedFlow, "[a.txt,", "[a.txt, a.txt, a.txt,", 1) }, "a.txt", "", "4 of 5 items are unchanged since run ID; 1 run: 1 new"},
		{"the environment", func(b *bench) string { return "env: {LEVEL: low}\n" + unchangedFlow }, func(b *bench) string { return "env: {LEVEL: high}\n" + unchangedFlow },
			all, "LEVEL has changed", "3 whose parameters or environment changed"},
		{"a parameter", func(b *bench) string { b.load.Params = map[string]string{"level": "low"}; return params() },
			func(b *bench) string { b.load.Params = map[string]string{"level": "high"}; return params() }, all, "level has changed", "3 whose parameters or environment changed"},
		{"a parameter that no step names", func(b *bench) string {
			b.load.Params = map[string]string{"level": "low"}
			return "parameters: {level: low}\n" + unchangedFlow
		},
			func(b *bench) string {
				b.load.Params = map[string]string{"level": "high"}
				return "parameters: {level: low}\n" + unchangedFlow
			}, "", "", "3 of 3"},
		{"what setup has found", func(b *bench) string { b.write("v", "1"); return captured() }, func(b *bench) string { b.write("v", "2"); return captured() },
			all, "version has changed", "3 whose parameters or environment changed"},
		{"a secret", func(b *bench) string {
			b.setenv("TOKEN", "one-secret")
			return "secrets: {TOKEN: '${env:TOKEN}'}\n" + unchangedFlow
		},
			func(b *bench) string {
				b.setenv("TOKEN", "other-secret")
				return "secrets: {TOKEN: '${env:TOKEN}'}\n" + unchangedFlow
			}, all, "TOKEN has changed", "3 whose parameters or environment changed"},
		{"the place in the list", func(b *bench) string {
			return strings.Replace(unchangedFlow, "echo ${item}", "echo ${item_index} > /dev/null; echo ${item}", 1)
		},
			func(b *bench) string {
				return strings.Replace(strings.Replace(unchangedFlow, "echo ${item}", "echo ${item_index} > /dev/null; echo ${item}", 1), "[a.txt, b.txt, c.txt]", "[b.txt, a.txt, c.txt]", 1)
			}, "a.txt b.txt", "its place in the list has changed, which its steps read", "1 of 3 items is unchanged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b *bench
			if c.before == nil {
				b = again(t)
			} else {
				b = newBench(t)
				for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
					b.write(name, "text of "+name)
				}
				b.run(c.before(b)).status(event.Succeeded)
				if err := os.Remove(filepath.Join(b.ev, "ran")); err != nil {
					t.Fatal(err)
				}
			}
			before := b.ranRun(t)
			r := b.run(c.change(b))
			r.status(event.Succeeded)
			b.ranItems(c.runs)
			if got := strings.ReplaceAll(r.compared(), before, "ID"); !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q in it", got, c.says)
			}
			for _, e := range r.of(event.ItemStarted) {
				if strings.Contains(string(e.Item), "b.txt") && e.Message != c.why {
					t.Errorf("b.txt runs as %q, want %q", e.Message, c.why)
				}
			}
		})
	}
}

func params() string {
	return "parameters: {level: low}\n" + strings.Replace(unchangedFlow, "cat ${item}", "echo ${level}", 1)
}

func captured() string {
	return strings.Replace(strings.Replace(unchangedFlow, "cat ${item}", "echo ${version}", 1), "map:", "setup:\n  - {shell: cat v, capture_output: version}\nmap:", 1)
}

// TestUnchangedFailed: an item that failed runs again, whatever has changed.
func TestUnchangedFailed(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		b.write(name, "text of "+name)
	}
	text := strings.Replace(unchangedFlow, "cat ${item}", "test ! -e $EV/bad-${item}", 1)
	b.output("touch " + b.ev + "/bad-b.txt")
	r := b.run(text)
	r.status(event.CompletedWithFailures)
	b.ranItems("a.txt b.txt c.txt")
	id := r.sum.Run
	r = b.run(text)
	b.ranItems("b.txt")
	if want := (event.ItemCounts{Total: 3, Unchanged: 2, Failed: 1}); r.sum.Items != want || r.sum.ExitStatus() != 3 {
		t.Errorf("the counts are %+v, want %+v; exit status %d", r.sum.Items, want, r.sum.ExitStatus())
	}
	if got, want := r.of(event.ItemStarted)[0].Message, "failed in run "+id; got != want {
		t.Errorf("it runs as %q, want %q", got, want)
	}
	// Its dead letter is run again in its own run, and the next run knows that.
	b.output("rm " + b.ev + "/bad-b.txt")
	opt := b.opt
	opt.Store = b.store()
	if _, err := engine.RetryDeadLetters(context.Background(), r.sum.Run, opt, letters.Requeue{}); err != nil {
		t.Fatal(err)
	}
	b.ranItems("b.txt")
	b.run(text)
	b.ranItems("")
}

// TestUnchangedThreshold: unchanged items do not count in the rate of failures.
func TestUnchangedThreshold(t *testing.T) {
	b := newBench(t)
	text := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("n%02d", i))
		}
		return fmt.Sprintf("name: rate\nmode: mapreduce\nerror_policy: {failure_threshold: 0.5}\nmap:\n  input: [%s]\n  skip_unchanged: true\n  max_parallel: 1\n"+
			"  agent_template:\n    - shell: 'echo ${item} >> $EV/ran; test ! -e $EV/bad'\n", strings.Join(list, ", "))
	}
	b.run(text(30)).status(event.Succeeded)
	b.ranItems(strings.Join(strings.Fields(strings.NewReplacer("[", "", ",", "").Replace(strings.Split(strings.Split(text(30), "input: [")[1], "]")[0])), " "))
	b.output("touch " + b.ev + "/bad")
	r := b.run(text(60))
	r.status(event.Failed)
	if c := r.sum.Items; c.Failed != 10 || c.Unchanged != 30 || c.Pending != 20 {
		t.Errorf("the map stopped with %+v, want 10 failed of those that ran", c)
	}
}

// cut runs a file until an item begins, which it then interrupts.
func (b *bench) cut(text, item string) *ran {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := b.opt.Sinks
	b.opt.Sinks = append(slices.Clone(before), event.SinkFunc(func(e event.Event) {
		if e.Type == event.ItemStarted && strings.Contains(e.Item+e.Label, item) {
			cancel()
		}
	}))
	r, err := b.try(ctx, text)
	b.opt.Sinks = before
	if err != nil {
		b.t.Fatal(err)
	}
	r.status(event.Interrupted)
	return r
}

// TestUnchangedCutShort: a run that was cut short does not hide what the run before it
// knew. Items that were in flight run again.
func TestUnchangedCutShort(t *testing.T) {
	text := strings.Replace(unchangedFlow, "cat ${item}", "test ! -e $EV/slow-${item} || sleep 100", 1)
	text = strings.Replace(text, "skip_unchanged", "label: ${item}\n  skip_unchanged", 1)
	b := newBench(t)
	b.run(text).status(event.Succeeded)
	b.ranItems("a.txt b.txt c.txt")
	b.output("touch " + b.ev + "/slow-b.txt")
	b.opt.All = true
	r := b.cut(text, "b.txt")
	b.opt.All = false
	b.output("rm -f " + b.ev + "/slow-b.txt " + b.ev + "/ran")
	id := r.sum.Run
	r = b.run(text)
	b.ranItems("b.txt")
	if got, want := r.of(event.ItemStarted)[0].Message, "cut short in run "+id; got != want {
		t.Errorf("it runs as %q, want %q", got, want)
	}
}

// TestUnchangedResume: decisions stay.
func TestUnchangedResume(t *testing.T) {
	text := strings.Replace(unchangedFlow, "cat ${item}", "test ! -e $EV/slow-${item} || sleep 100", 1)
	text = strings.Replace(text, "skip_unchanged", "label: ${item}\n  skip_unchanged", 1)
	b := newBench(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		b.write(name, "text of "+name)
	}
	b.run(text).status(event.Succeeded)
	b.ranItems("a.txt b.txt c.txt")
	b.write("b.txt", "other")
	b.output("touch " + b.ev + "/slow-b.txt")
	r := b.cut(text, "b.txt")
	if r.sum.Items.Unchanged != 2 {
		t.Errorf("the counts are %+v, want 2 unchanged", r.sum.Items)
	}
	b.output("rm -f " + b.ev + "/slow-b.txt " + b.ev + "/ran")
	b.write("a.txt", "other")
	opt := b.opt
	opt.Store = b.store()
	sum, err := engine.Resume(context.Background(), r.sum.Run, opt)
	if err != nil {
		t.Fatal(err)
	}
	b.ranItems("b.txt")
	if want := (event.ItemCounts{Total: 3, Unchanged: 2, Succeeded: 1}); sum.Items != want {
		t.Errorf("the counts are %+v, want %+v", sum.Items, want)
	}
	b.run(text)
	b.ranItems("a.txt")
}

// TestUnchangedHostile: items that name files which must not be read, or cannot be.
func TestUnchangedHostile(t *testing.T) {
	b := newBench(t)
	b.write("plain", "text")
	if err := os.Symlink("/etc/hosts", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(b.dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	big, err := os.Create(filepath.Join(b.dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(2 << 30); err != nil { // a sparse file takes no space
		t.Fatal(err)
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	text := `
name: hostile
mode: mapreduce
map:
  input:
    - {n: 1-outside, path: ../../../../../../../../../../etc/passwd}
    - {n: 2-absolute, path: /etc/passwd}
    - {n: 3-nul, path: "a\0b"}
    - {n: 4-link, path: link}
    - {n: 5-pipe, path: pipe}
    - {n: 6-folder, path: folder}
    - {n: 7-big, path: big}
    - {n: 8-long, path: "` + strings.Repeat("x", 300) + `"}
    - {n: 9-deep, path: [[{a: plain}]]}
  skip_unchanged: true
  max_parallel: 1
  agent_template:
    - shell: "echo ${item.n} >> $EV/ran"
`
	b.run(text).status(event.Succeeded)
	if err := os.Remove(filepath.Join(b.ev, "ran")); err != nil {
		t.Fatal(err)
	}
	r := b.run(text)
	r.status(event.Succeeded)
	b.ranItems("4-link 7-big")
	for i, want := range []string{"link cannot be compared", "with big its files have more than 1024 MiB"} {
		if got := r.of(event.ItemStarted)[i].Message; !strings.Contains(got, want) {
			t.Errorf("it runs as %q, want %q in it", got, want)
		}
	}
	b.write("plain", "other")
	b.run(text)
	b.ranItems("4-link 7-big 9-deep")
}

// TestUnchangedFiles: files count that the item does not name.
func TestUnchangedFiles(t *testing.T) {
	text := `
name: files
mode: mapreduce
map:
  input: [{name: one}, {name: two}]
  skip_unchanged: {files: ["src/${item.name}/*.c", build.sh, missing]}
  max_parallel: 1
  agent_template:
    - shell: "echo ${item.name} >> $EV/ran"
`
	b := newBench(t)
	b.write("src/one/a.c", "a")
	b.write("src/two/b.c", "b")
	b.write("build.sh", "make")
	b.run(text).status(event.Succeeded)
	b.ranItems("one two")
	b.run(text)
	b.ranItems("")
	b.write("src/one/new.c", "new")
	r := b.run(text)
	b.ranItems("one")
	if got := r.of(event.ItemStarted)[0].Message; got != "src/one/new.c has changed" {
		t.Errorf("it runs as %q", got)
	}
	b.write("build.sh", "make -j")
	b.run(text)
	b.ranItems("one two")
	b.write("missing", "here")
	b.run(text)
	b.ranItems("one two")
	b.run(text)
	b.ranItems("")
}

// TestUnchangedOutput: a large output is taken over, and is kept when the run that made it
// is removed.
func TestUnchangedOutput(t *testing.T) {
	text := strings.Replace(unchangedFlow, "cat ${item}", "seq 200000", 1)
	b := newBench(t)
	first := b.run(text).sum.Run
	b.run(text)
	if err := b.store().Remove(first); err != nil {
		t.Fatal(err)
	}
	r := b.run(text)
	b.ranItems("a.txt b.txt c.txt")
	if want := (event.ItemCounts{Total: 3, Unchanged: 3}); r.sum.Items != want {
		t.Errorf("the counts are %+v, want %+v", r.sum.Items, want)
	}
	got, err := os.ReadFile(filepath.Join(b.dir, "results"))
	if err != nil || !strings.Contains(string(got), "199999") && !strings.Contains(string(got), "output_file") {
		t.Errorf("the results are %.200s, %v", got, err)
	}
	// Without the file the item runs.
	if err := os.RemoveAll(filepath.Join(b.home, "runs", r.sum.Run, "logs")); err != nil {
		t.Fatal(err)
	}
	b.run(text)
	b.ranItems("a.txt b.txt c.txt")
}

// TestUnchangedSecret: the journal has neither a secret nor a digest with which somebody
// could guess it.
func TestUnchangedSecret(t *testing.T) {
	b := newBench(t)
	b.setenv("TOKEN", "very-secret")
	text := "secrets: {TOKEN: '${env:TOKEN}'}\n" + strings.Replace(strings.Replace(unchangedFlow, "[a.txt, b.txt, c.txt]", "list.json", 1), "cat ${item}", "true", 1)
	b.write("list.json", `["very-secret", "b.txt", "c.txt"]`)
	b.run(text).status(event.Succeeded)
	info, err := os.Stat(filepath.Join(b.home, "fingerprints.key"))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 32 {
		t.Errorf("the key is %v, %v", info, err)
	}
	if err := os.RemoveAll(filepath.Join(b.ev, "ran")); err != nil {
		t.Fatal(err)
	}
	b.run(text)
	b.ranItems("")
	plain := sha256.Sum256([]byte("very-secret"))
	err = filepath.WalkDir(filepath.Join(b.home, "runs"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, s := range []string{"very-secret", string(plain[:8]), hex.EncodeToString(plain[:8]), base64.RawStdEncoding.EncodeToString(plain[:6])} {
			if strings.Contains(string(text), s) {
				at := strings.Index(string(text), s)
				t.Errorf("%q stands in %s: %q", s, path, text[max(0, at-100):at])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// With another key, nothing can be compared.
	if err := os.Remove(filepath.Join(b.home, "fingerprints.key")); err != nil {
		t.Fatal(err)
	}
	r := b.run(text)
	if r.sum.Items.Succeeded != 3 {
		t.Errorf("the counts are %+v", r.sum.Items)
	}
}

// TestUnchangedUnreadable: if only an unreadable run has the end of an item, the item runs
// again, and the run says so.
func TestUnchangedUnreadable(t *testing.T) {
	b := again(t)
	if err := os.WriteFile(filepath.Join(b.home, "runs", b.ranRun(t), "journal.db"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.run(unchangedFlow)
	b.ranItems("a.txt b.txt c.txt")
	if !r.noted("cannot be read") {
		t.Errorf("nobody says so%s", r.story())
	}
}

// TestUnchangedIsolated: in worktrees, work that is not in the branch counts as not done.
func TestUnchangedIsolated(t *testing.T) {
	text := `
name: isolated
mode: mapreduce
map:
  input: [a.txt, b.txt]
  skip_unchanged: true
  max_parallel: 1
  agent_template:
    - shell: "echo ${item} >> $EV/ran; echo ${item} > done-${item}; git add . && git commit -qm 'did ${item}'"
      commit_required: true
`
	b := newBench(t)
	b.git()
	b.write("a.txt", "a")
	b.write("b.txt", "b")
	b.output("git add . && git commit -qm files")
	b.run(text).status(event.CompletedWithFailures)
	b.ranItems("a.txt b.txt")
	text = strings.Replace(text, "echo ${item} > done", "date +%N > done", 1)
	b.run(text).status(event.CompletedWithFailures)
	b.ranItems("a.txt b.txt") // other steps
	r := b.run(text)
	r.status(event.CompletedWithFailures)
	b.ranItems("a.txt b.txt") // nobody has merged their commits
	if got := r.of(event.ItemStarted)[0].Message; !strings.Contains(got, "are not in the branch") {
		t.Errorf("it runs as %q", got)
	}
	b.opt.Yes = true
	b.run(text).status(event.Succeeded)
	b.ranItems("a.txt b.txt")
	b.run(text).status(event.Succeeded)
	b.ranItems("")
}

// TestUnchangedAndUndone: an item runs again if its work was reverted, or one of its files
// was deleted, after the work reached the branch. It does not run again if the run itself
// moved the file, or somebody edited it.
func TestUnchangedAndUndone(t *testing.T) {
	text := `
name: undone
mode: mapreduce
isolation: worktree
map:
  input: [a, b, c]
  skip_unchanged: true
  max_parallel: 1
  agent_template:
    - shell: "echo ${item} >> $EV/ran; mkdir -p out tmp; for f in out tmp was; do echo ${item} > $f/${item}; done"
reduce:
  - shell: "cat tmp/* > sum; rm -rf tmp; true"
`
	b := newBench(t)
	b.git()
	for _, item := range []string{"a", "b", "c"} {
		b.write("was/"+item, "before\n")
	}
	b.output("git add . && git commit -qm files && git tag start")
	b.opt.Yes = true
	b.run(text).status(event.Succeeded)
	b.ranItems("a b c")
	for _, c := range []struct{ do, want string }{
		{"true", ""}, // the run itself has removed a file of each item
		{"echo more >> out/a; git commit -qam edit", ""},
		{"git rm -q out/b; git commit -qm gone", "b"},
		{"git checkout -q start was/c; git commit -qm before", "c"},
		{"git revert --no-edit -m 1 HEAD", "c"},
		{"true", ""},
	} {
		b.output(c.do)
		r := b.run(text)
		r.status(event.Succeeded)
		b.ranItems(c.want)
		if c.want != "" && !strings.Contains(r.of(event.ItemStarted)[0].Message, "undone since, or is gone") {
			t.Errorf("after %q it runs as %q", c.do, r.of(event.ItemStarted)[0].Message)
		}
	}
}

// TestUnchangedDecidedTwice: a run that is cut short while it decides continues with the
// rest, and decides nothing twice.
func TestUnchangedDecidedTwice(t *testing.T) {
	const n = 600 // several chunks
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(i))
	}
	text := "name: many\nmode: mapreduce\nmap:\n  input: [" + strings.Join(list, ", ") + "]\n  skip_unchanged: true\n  agent_template:\n    - {shell: 'false', when: 'false'}\n"
	b := newBench(t)
	b.run(text).status(event.Succeeded)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := b.opt.Sinks
	b.opt.Sinks = append(slices.Clone(before), event.SinkFunc(func(e event.Event) {
		if e.Status == event.Unchanged {
			cancel()
		}
	}))
	r, err := b.try(ctx, text)
	b.opt.Sinks = before
	if err != nil {
		t.Fatal(err)
	}
	r.status(event.Interrupted)
	opt := b.opt
	opt.Store = b.store()
	var said string
	opt.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) {
		if e.Type == event.ItemsCompared {
			said = e.Message
		}
	})}
	sum, err := engine.Resume(context.Background(), r.sum.Run, opt)
	if err != nil {
		t.Fatal(err)
	}
	if want := (event.ItemCounts{Total: n, Unchanged: n}); sum.Items != want || !strings.HasPrefix(said, "600 of 600 items are unchanged since ") {
		t.Errorf("the counts are %+v, want %+v; it says %q", sum.Items, want, said)
	}
}

// TestUnchangedJustWell: an item that ended well by a fallback has a better end in an
// earlier run; an item that was repaired does not.
func TestUnchangedJustWell(t *testing.T) {
	b := newBench(t)
	text := `
name: kinds
mode: mapreduce
map:
  input: [degraded, recovered, tolerated]
  skip_unchanged: true
  max_parallel: 1
  agent_template:
    - shell: "echo ${item} >> $EV/ran; test ${item} != degraded"
      retry: {attempts: 1, on_failure: {fallback: {command: "true"}}}
    - shell: "test ${item} != recovered"
      on_failure: {shell: "true"}
    - shell: "test ${item} != tolerated"
      continue_on_error: true
`
	b.run(text).status(event.Succeeded)
	b.ranItems("degraded recovered tolerated")
	r := b.run(text)
	b.ranItems("degraded tolerated")
	for i, kind := range []string{"degraded", "tolerated"} {
		if got := r.of(event.ItemStarted)[i].Message; !strings.HasPrefix(got, kind+" in run ") {
			t.Errorf("it runs as %q", got)
		}
	}
}

// TestUnchangedWorkingDir: an item's file may be in the directory where a step works.
func TestUnchangedWorkingDir(t *testing.T) {
	b := newBench(t)
	b.write("sub/a.txt", "a")
	b.write("sub/b.txt", "b")
	text := strings.Replace(unchangedFlow, "[a.txt, b.txt, c.txt]", "[a.txt, b.txt]", 1)
	text = strings.Replace(text, "cat ${item}\"", "cat ${item}\"\n      working_dir: sub", 1)
	b.run(text).status(event.Succeeded)
	b.ranItems("a.txt b.txt")
	b.write("sub/b.txt", "other")
	b.run(text).status(event.Succeeded)
	b.ranItems("b.txt")
}

// TestUnchangedCalled: values from an env file or a secret of a called workflow count.
func TestUnchangedCalled(t *testing.T) {
	b := newBench(t)
	b.setenv("TOKEN", "very-secret")
	b.write("sub.env", "LEVEL=1\n")
	b.write("sub.yml", "env_files: [sub.env]\nsecrets: {S: '${env:TOKEN}'}\nparameters: {required: [{name: n}]}\ncommands: [{shell: 'echo ${n} $LEVEL >> @EV@/ran; : $S'}]\n")
	text := "imports: [{path: sub.yml, alias: sub}]\nmode: mapreduce\nmap: {input: [a, b], skip_unchanged: true, max_parallel: 1, agent_template: [{workflow: sub, with: {n: '${item}'}}]}\n"
	b.run(text).status(event.Succeeded)
	b.ranItems("1 1 a b")
	b.run(text)
	b.ranItems("")
	b.write("sub.env", "LEVEL=2\n")
	r := b.run(text)
	b.ranItems("2 2 a b")
	if got := r.of(event.ItemStarted)[0].Message; got != "LEVEL of sub.yml has changed" {
		t.Errorf("the reason is %q", got)
	}
	b.setenv("TOKEN", "other-secret")
	b.run(text)
	b.ranItems("2 2 a b")
}

// TestUnchangedReasons: the run reports why items cannot be compared, with a count for each
// reason. An item that begins after a resume says why it runs.
func TestUnchangedReasons(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		b.write(name, "text of "+name)
	}
	plain := strings.Replace(unchangedFlow, "skip_unchanged: true", "skip_unchanged: false", 1)
	first := b.run(plain)
	b.ranItems("a.txt b.txt c.txt")
	text := strings.Replace(unchangedFlow, "cat ${item}", "test ! -e $EV/slow-${item} || sleep 100", 1)
	b.output("touch " + b.ev + "/slow-a.txt")
	r := b.cut(text, "a.txt")
	why := "run " + first.sum.Run + " does not say on what it has worked"
	if got, want := r.compared(), "none of 3 items is unchanged; 3 run: 3 as "+why; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	b.output("rm -f " + b.ev + "/slow-a.txt " + b.ev + "/ran")
	opt := b.opt
	opt.Store = b.store()
	if _, err := engine.Resume(context.Background(), r.sum.Run, opt); err != nil {
		t.Fatal(err)
	}
	b.ranItems("a.txt b.txt c.txt")
	old, err := b.store().Read(r.sum.Run)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	last := map[string]string{}
	for e, err := range old.Events(t.Context(), 1, journal.EventFilter{Types: []event.Type{event.ItemStarted}}) {
		if err != nil {
			t.Fatal(err)
		}
		last[e.Item] = e.Message
	}
	if last["1"] != why || last["2"] != why {
		t.Errorf("the reasons after the resume are %q", last)
	}
}
