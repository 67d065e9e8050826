package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
)

// slowly is a module that reports its begin and its end. It runs as long as $EV/hold
// exists, for a minute at most.
const slowly = `
- name: Slowly
  params: {key: String}
  result: String
  shell: |
    echo "begin $INPUT_KEY" >> $EV/log; echo "$INPUT_KEY begins" >&2
    n=0; while [ -e $EV/hold-$INPUT_KEY ] && [ $n -lt 6000 ]; do sleep 0.01; n=$((n+1)); done
    echo "end $INPUT_KEY" >> $EV/log; echo "$INPUT_KEY done"
`

// mark makes an empty file in ev.
func (b *bench) mark(name string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.ev, name), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) unmark(name string) {
	b.t.Helper()
	if err := os.Remove(filepath.Join(b.ev, name)); err != nil {
		b.t.Fatal(err)
	}
}

const slowFlow = "a = Slowly(\"a\")\nb = Slowly(\"b\")\nc = Slowly(a)\nout a\nout b\nout c\n"

// TestInterruptsOfPipelines: the first interrupt lets running calls end and starts no
// others. The second one ends them. After both, the run can be resumed.
func TestInterruptsOfPipelines(t *testing.T) {
	t.Parallel()
	for _, hard := range []bool{false, true} {
		name := "soft"
		if hard {
			name = "hard"
		}
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.modules(slowly)
			b.write("flow.cst", slowFlow)
			b.mark("hold-a")
			b.mark("hold-b")
			p := b.start("bide", "run", "flow.cst")
			p.waitFor(t, "a begins")
			p.waitFor(t, "b begins")
			signal := func() {
				if err := p.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			signal()
			p.waitFor(t, "interrupted")
			if hard {
				signal()
			} else {
				b.unmark("hold-a")
				b.unmark("hold-b")
			}
			if status := p.wait(t); status != 130 {
				t.Errorf("exit status %d, want 130: %s", status, p.text())
			}
			if !strings.Contains(p.text(), "continue with: bide resume") {
				t.Errorf("it does not say how to go on: %s", p.text())
			}
			b.quiet()
			if hard {
				b.unmark("hold-a")
				b.unmark("hold-b")
			}
			again := b.start("bide", "resume")
			if status := again.wait(t); status != 0 || !strings.Contains(again.text(), `"c": "a done done"`) {
				t.Errorf("resume: exit status %d: %s", status, again.text())
			}
			want := 1
			if hard {
				want = 2
			}
			for _, key := range []string{"a", "b"} {
				if n := b.times("begin " + key); n != want {
					t.Errorf("%s was begun %d times, want %d", key, n, want)
				}
			}
			if n := b.times("begin a done"); n != 1 {
				t.Errorf("c was begun %d times", n)
			}
		})
	}
}

// fixable is a module that fails for some calls until $EV/mended exists.
const fixable = `
- name: Note
  params: {key: String}
  result: String
  shell: echo "$INPUT_KEY" >> $EV/log; echo "noted $INPUT_KEY"
- name: Fragile
  params: {key: String}
  result: String
  shell: echo "$INPUT_KEY" >> $EV/log; test -e $EV/mended && echo "$INPUT_KEY fine"
`

// TestAFailedPipelineGoesOn: calls that ended well are not made again. Calls that failed
// are made again, with all their attempts.
func TestAFailedPipelineGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(fixable)
	r := b.pipeline(`
first = Note("first")
broken = Fragile(first) with retry: 1
after = Note(broken)
each = map(["x", "y"], (k) => Note(k))
out after
out each
`, nil)
	r.status(event.Failed)
	b.mark("mended")
	again := b.resume(context.Background())
	again.status(event.Succeeded)
	again.gave("after", "noted noted first fine")
	again.gave("each", []string{"noted x", "noted y"})
	for key, n := range map[string]int{"first": 1, "x": 1, "y": 1, "noted first": 3, "noted first fine": 1} {
		if got := b.times(key); got != n {
			t.Errorf("%q was done %d times, want %d", key, got, n)
		}
	}
	if s := again.sum.Steps; s.Succeeded != 5 || s.Failed != 0 {
		t.Errorf("counted %+v", s)
	}
	if _, err := b.tryResume(context.Background()); !errors.As(err, new(*engine.FinishedError)) {
		t.Errorf("a finished run is resumed: %v", err)
	}
}

// TestAChangedPipelineIsRefused: a change of the file or its manifest is refused. With
// --force, calls that are unchanged are not made again.
func TestAChangedPipelineIsRefused(t *testing.T) {
	t.Parallel()
	const flow = "a = Note(\"a\")\nb = Note(\"b\")\nc = Fragile(a)\nout a\nout b\nout c\n"
	for _, c := range []struct {
		name, file, from, to string
		a, b                 int // how often each was called in the end
		outB                 string
	}{
		{"file", "flow.cst", `b = Note("b")`, `b = Note("changed")`, 1, 1, "noted changed"},
		{"manifest", "modules.yml", "test -e $EV/mended", "true", 1, 1, "noted b"},
		{"module", "modules.yml", `echo "noted $INPUT_KEY"`, `touch $EV/mended; echo "Noted $INPUT_KEY"`, 2, 2, "Noted b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.modules(fixable)
			b.pipeline(flow, nil).status(event.Failed)
			path := filepath.Join(b.dir, c.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.from) {
				t.Fatalf("no %q in %s", c.from, text)
			}
			b.write(c.file, strings.Replace(string(text), c.from, c.to, 1))
			var changed *engine.ChangedError
			if _, err := b.tryResume(context.Background()); !errors.As(err, &changed) {
				t.Fatalf("a changed %s is taken: %v", c.file, err)
			}
			if changed.Path != path || !strings.Contains(changed.Diff, c.to) || !strings.Contains(changed.Error(), "--force") {
				t.Errorf("the refusal says %v", changed)
			}
			if c.name == "file" {
				b.mark("mended")
			}
			b.opt.Force = true
			r := b.resume(context.Background())
			r.status(event.Succeeded)
			r.gave("b", c.outB)
			if n := b.times("a"); n != c.a {
				t.Errorf("a was done %d times, want %d", n, c.a)
			}
			if n := b.times("b"); n != c.b {
				t.Errorf("b was done %d times, want %d", n, c.b)
			}
			if (c.name != "manifest") != r.noted("is called again") {
				t.Errorf("notes: %+v", r.of(event.Note))
			}
		})
	}
}

// TestADamagedValueIsMadeAgain: the file with a large result may be damaged or gone.
func TestADamagedValueIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"gone": os.Remove,
		"cut":  func(path string) error { return os.Truncate(path, 1000) },
		"changed": func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[len(b)/2] = 'X'
			return os.WriteFile(path, b, 0o600)
		},
		"whole": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.modules(fixable + `
- name: Large
  result: String
  shell: echo large >> $EV/log; head -c 200000 /dev/zero | tr '\0' L
`)
			failed := b.pipeline("large = Large()\nc = Fragile(\"c\")\nout large\nout c\n", nil)
			failed.status(event.Failed)
			var record struct {
				File string `json:"value_file"`
			}
			if err := json.Unmarshal(failed.end("large").Data, &record); err != nil || record.File == "" {
				t.Fatalf("the file with the value: %v %s", err, failed.end("large").Data)
			}
			if err := damage(record.File); err != nil {
				t.Fatal(err)
			}
			b.mark("mended")
			r := b.resume(context.Background())
			r.status(event.Succeeded)
			r.gave("large", strings.Repeat("L", 200000))
			want := 2
			if name == "whole" {
				want = 1
			}
			if n := b.times("large"); n != want {
				t.Errorf("it was done %d times, want %d", n, want)
			}
			if (want == 2) != r.noted("large = Large is called again") {
				t.Errorf("notes: %+v", r.of(event.Note))
			}
		})
	}
}

// TestRecordedInputsOfARun: a resumed run has the inputs that it was started
// with.
func TestRecordedInputsOfARun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.modules(fixable)
	b.write("flow.cst", "in q: String\nin n: List<{a: Int}>\nout c = Fragile(q)\nout n\n")
	p := b.start("bide", "run", "-q", "flow.cst", "--input", "q=x y", "--input", `n=[{"a": 1}]`)
	if status := p.wait(t); status != 1 {
		t.Fatalf("exit status %d: %s", status, p.text())
	}
	b.mark("mended")
	p = b.start("bide", "resume", "-q")
	if status := p.wait(t); status != 0 || !strings.Contains(p.text(), `"c": "x y fine"`) || !strings.Contains(p.text(), `"a": 1`) {
		t.Errorf("exit status %d: %s", status, p.text())
	}
}

// TestSecretsInPipelineSteps: an output that holds a secret is nowhere on disk. Later steps
// get it, and a resumed run makes the call again.
func TestSecretsInPipelineSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	b.modules(`
- name: Login
  params: {user: String}
  result: {user: String, token: String}
  shell: echo login >> $EV/log; echo "logging in with $TOKEN" >&2; printf '{"user":"%s","token":"%s"}' "$INPUT_USER" "$TOKEN"
- name: Use
  params: {token: String}
  result: String
  shell: echo use >> $EV/log; test "$INPUT_TOKEN" = "$TOKEN" && echo "right $INPUT_TOKEN"
`)
	b.write("login.cst", "in user: String\nsession = Login(user)\nused = Use(session.token)\nout session\nout used\n")
	const flow = `
secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}
commands:
  - pipeline: login.cst
    with: {user: me}
    capture: got
    capture_format: json
  - shell: test "${got.session.token}" = "$TOKEN_FROM_OUTSIDE" && echo right > $EV/right
  - shell: test -e $EV/mended
`
	r := b.run(flow)
	r.status(event.Failed)
	r.want("right", "right")
	if strings.Contains(r.shown, secret) {
		t.Errorf("shown: %s", r.shown)
	}
	if found := leaks(t, b.home); len(found) > 0 {
		t.Errorf("on disk: %q", found)
	}
	if e := r.end("commands[0]/session"); !strings.Contains(string(e.Data), `"masked":true`) {
		t.Errorf("the record of the call: %s", e.Data)
	}
}

// TestACallWithASecretIsMadeAgain when a run is resumed in the middle of its pipeline: the
// call's result is not on record.
func TestACallWithASecretIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.setenv("TOKEN_FROM_OUTSIDE", secret)
	b.modules(`
- {name: Login, result: String, shell: "echo login >> $EV/log; printf %s \"$TOKEN\""}
- {name: Plain, result: String, shell: "echo plain >> $EV/log; echo fine"}
- name: Use
  params: {token: String}
  result: String
  shell: touch $EV/used; until [ -e $EV/mended ]; do sleep 0.01; done; test "$INPUT_TOKEN" = "$TOKEN" && echo right
`)
	b.write("login.cst", "token = Login()\nplain = Plain()\nused = Use(if (plain == \"fine\") token else plain)\nout used\n")
	soft, stop := context.WithCancel(context.Background())
	b.opt.Soft, b.opt.Grace = soft, 10*time.Millisecond
	go func() {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(b.ev, "used")); err == nil {
				break
			}
		}
		stop()
	}()
	const flow = "secrets: {TOKEN: '${env:TOKEN_FROM_OUTSIDE}'}\ncommands:\n  - pipeline: login.cst\n    capture: got\n  - shell: echo '${got}' > $EV/end\n"
	b.write("flow.yml", flow)
	b.run(flow).status(event.Interrupted)
	b.mark("mended")
	r := b.resume(context.Background())
	r.status(event.Succeeded)
	r.want("end", `{"used":"right"}`)
	if l, p := b.times("login"), b.times("plain"); l != 2 || p != 1 {
		t.Errorf("login was done %d times, want 2; plain %d times, want 1", l, p)
	}
	if found := leaks(t, b.home); len(found) > 0 {
		t.Errorf("on disk: %q", found)
	}
}
