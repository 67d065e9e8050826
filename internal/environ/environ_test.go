package environ

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
	"pgregory.net/rapid"
)

// world is where an environment is made: a directory with files, and commands
// that are answered by a function.
type world struct {
	t       *testing.T
	dir     string
	inherit []string
	profile string
	ran     []string // the texts of the commands
	answer  func(ctx context.Context, text string) (string, error)
	told    []string
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), inherit: []string{"PATH=/bin", "HOME=/home/me", "CLAUDECODE=1", "X=inherited"},
		answer: func(_ context.Context, text string) (string, error) { return "<" + text + ">", nil }}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) parse(head string) *workflow.File {
	w.t.Helper()
	f, problems := workflow.Parse(filepath.Join(w.dir, "flow.yml"), []byte(head+"\ncommands:\n  - shell: \"true\"\n"), workflow.Options{WorkDir: w.dir})
	if problems.HasErrors() {
		w.t.Fatalf("%v\n%s", problems.Err(), head)
	}
	return f
}

func (w *world) load(head string) (*Environment, error) {
	w.t.Helper()
	e := New(Options{File: w.parse(head), Inherited: w.inherit, Profile: w.profile, Run: "R1", Dir: w.dir,
		Command: func(ctx context.Context, c Command) (string, error) {
			text := c.Text.String()
			w.ran = append(w.ran, text)
			return w.answer(ctx, text)
		},
		Now:  func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC) },
		Warn: func(_, text string) { w.told = append(w.told, text) },
	})
	return e, e.Load(w.t.Context())
}

func (w *world) must(head string) *Environment {
	w.t.Helper()
	e, err := w.load(head)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// last is what a program sees of a variable: the last entry counts.
func last(list []string, name string) string {
	got := "-"
	for _, kv := range list {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			got = v
		}
	}
	return got
}

// both checks that programs and texts see the same.
func both(t *testing.T, e *Environment, l Local, name, want string) {
	t.Helper()
	if got := last(l.List(), name); got != want {
		t.Errorf("a program sees %s=%s, want %s", name, got, want)
	}
	got := "-"
	if v, ok := e.View(t.Context(), l, e.Scope).Env(name); ok {
		got = fmt.Sprint(v.V)
	}
	if got != want {
		t.Errorf("a text sees %s=%s, want %s", name, got, want)
	}
}

// TestWhoWins adds one source of a variable after the other, from the lowest to
// the highest: each wins over those before it.
func TestWhoWins(t *testing.T) {
	w := newWorld(t)
	w.write("a.env", "X=file\n")
	head := ""
	check := func(want string) *Environment {
		t.Helper()
		e := w.must(head)
		both(t, e, e.Base(), "X", want)
		return e
	}
	check("inherited")
	head += "env_files: [a.env]\n"
	check("file")
	head += "env: {X: env}\n"
	check("env")
	head += "profiles: {p: {X: profile}, q: {X: other}}\nactive_profile: p\n"
	check("profile")
	w.profile = "q"
	e := check("other")
	step := w.parse("env: {X: step}").Env
	l, err := e.AddStep(t.Context(), e.Base(), e.Scope, step, nil)
	if err != nil {
		t.Fatal(err)
	}
	both(t, e, l, "X", "step")
	both(t, e, l.With("X", "inner"), "X", "inner")
	head += "secrets: {X: secret-of-ours}\n"
	e = check("secret-of-ours")
	if l, err = e.AddStep(t.Context(), e.Base(), e.Scope, step, nil); err != nil {
		t.Fatal(err)
	}
	both(t, e, l, "X", "secret-of-ours")
	both(t, e, e.Base(), "CLAUDECODE", "-")
	both(t, e, e.Base(), "BIDE_RUN", "R1")
	w.profile = "none"
	if _, err := w.load(head); err == nil || !strings.Contains(err.Error(), `"none"; it has: p, q`) {
		t.Errorf("a profile that is not there: %v", err)
	}
}

// TestPlaces: what a place adds is seen there and nowhere else, and clear_env
// leaves what a program needs to start.
func TestPlaces(t *testing.T) {
	w := newWorld(t)
	e := w.must("env: {Y: env}")
	outer := e.Base().With("A", "1", "BIDE_ITEM", "7")
	inner := outer.Cleared().With("B", "2")
	both(t, e, inner, "A", "-")
	both(t, e, inner, "X", "-")
	both(t, e, inner, "B", "2")
	both(t, e, inner, "BIDE_ITEM", "7")
	both(t, e, inner, "PATH", "/bin")
	both(t, e, outer, "A", "1")
	both(t, e, outer, "B", "-")
	both(t, e, e.Base(), "A", "-")
	hidden := e.Base().Export("C", "3")
	if last(hidden.List(), "C") != "3" {
		t.Error("a program does not see what is exported")
	}
	if _, ok := e.View(t.Context(), hidden, e.Scope).Env("C"); ok {
		t.Error("a text sees what only programs read")
	}
	// Names without env. are those of env blocks; inherited ones are the shell's.
	view := e.View(t.Context(), e.Base(), e.Scope)
	if v, ok := view.Lookup("Y"); !ok || v.V != "env" {
		t.Errorf("Y is %v", v.V)
	}
	if v, ok := view.Lookup("X"); ok {
		t.Errorf("an inherited variable is pasted into shell texts: %v", v.V)
	}
	nul := []workflow.EnvVar{{Name: "N", Text: text(t, "${z}")}}
	e.Scope.Set("z", "a\x00b")
	if _, err := e.Add(t.Context(), e.Base(), e.Scope, nul); err == nil || !strings.Contains(err.Error(), "env N") {
		t.Errorf("a NUL byte: %v", err)
	}
}

func text(t *testing.T, s string) *template.Text {
	t.Helper()
	x, err := template.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestComputed: a command is run once where its value is cached, else at each
// use, and ends with whoever reads it.
func TestComputed(t *testing.T) {
	w := newWorld(t)
	e := w.must("env:\n  ONCE: {command: once}\n  EACH: {command: each, cache: false}\n  IF: {condition: '1 < 2', when_true: yes-, when_false: no-}\n")
	both(t, e, e.Base(), "ONCE", "<once>")
	both(t, e, e.Base(), "IF", "yes-")
	before := len(w.ran)
	for range 2 {
		l, err := e.AddDynamic(t.Context(), e.Base(), e.Scope)
		if err != nil || last(l.List(), "EACH") != "<each>" {
			t.Fatalf("EACH=%s, %v", last(l.List(), "EACH"), err)
		}
	}
	if got := w.ran[before:]; !slices.Equal(got, []string{"each", "each"}) {
		t.Errorf("ran %q", got)
	}
	if l, err := e.AddDynamic(t.Context(), e.Base().With("EACH", "own"), e.Scope); err != nil || last(l.List(), "EACH") != "own" {
		t.Errorf("a step's own EACH is %s, %v", last(l.List(), "EACH"), err)
	}
	stop := errors.New("stopped")
	w.answer = func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := e.AddDynamic(ctx, e.Base(), e.Scope); !errors.Is(err, stop) {
		t.Errorf("a reader that was stopped is told %v", err)
	}
	if v, ok := e.View(ctx, e.Base(), e.Scope).Lookup("cmd:x"); ok || len(w.told) > 0 {
		t.Errorf("a value that was cut short is %v, and told of: %q", v.V, w.told)
	}
}

// TestEnvFile reads what people write into such files.
func TestEnvFile(t *testing.T) {
	w := newWorld(t)
	w.write("a.env", "# c\n\nexport A=1\n B = two words \nC='it''s # x'\nD=\"q\\\"\\n\\$X\"\nE=v # comment\nF=a=b\nG=\nA=again\n")
	e := w.must("env_files: [a.env]")
	for name, want := range map[string]string{"A": "again", "B": "two words", "C": "it''s # x", "D": "q\"\n$X", "E": "v", "F": "a=b", "G": ""} {
		both(t, e, e.Base(), name, want)
	}
	for _, bad := range []string{"A", "1A=x", "A B=x", "=x"} {
		w.write("a.env", "OK=1\n"+bad+"\n")
		if _, err := w.load("env_files: [a.env]"); err == nil || !strings.Contains(err.Error(), "a.env:2: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := w.load("env_files: [/dev/zero]"); err == nil || !strings.Contains(err.Error(), "/dev/zero") {
		t.Errorf("a file without lines: %v", err)
	}
	if e := w.must("env_files: [{path: none.env, required: false}]"); len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "none.env is not there") {
		t.Errorf("notes: %q", e.Notes)
	}
}

// TestSecrets come from where their providers say, and are masked.
func TestSecrets(t *testing.T) {
	w := newWorld(t)
	w.inherit = append(w.inherit, "TOKEN=from-the-env")
	w.write("key", "from-the-file\n")
	w.answer = func(context.Context, string) (string, error) { return "from-a-command", nil }
	e := w.must("secrets:\n  A: {provider: env, key: TOKEN}\n  B: {provider: file, key: key}\n  C: {provider: command, key: pass show x}\n  D: abc\n")
	for name, want := range map[string]string{"A": "from-the-env", "B": "from-the-file", "C": "from-a-command", "D": "abc"} {
		both(t, e, e.Base(), name, want)
		masked := e.Mask().String("<" + want + ">")
		if name == "D" {
			want = "<abc>" // too short to be told from other texts, which is told
		} else {
			want = "<***>"
		}
		if masked != want {
			t.Errorf("%s is shown as %s", name, masked)
		}
	}
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "secret D") {
		t.Errorf("notes: %q", e.Notes)
	}
	if _, err := w.load("secrets:\n  A: {provider: env, key: NOT_SET}\n  B: {provider: file, key: none}\n"); err == nil ||
		!strings.Contains(err.Error(), "secret A: the environment variable NOT_SET is not set") || !strings.Contains(err.Error(), "secret B") {
		t.Errorf("both problems are not told: %v", err)
	}
	if _, err := w.load("secrets: {A: $NOT_SET}\n"); err == nil || !strings.Contains(err.Error(), "secret A: the environment variable NOT_SET is not set") {
		t.Errorf("a secret is the name of what is not there: %v", err)
	}
	e = w.must("secrets: {A: $TOKEN, B: $lower-case, C: 'x$NOT_SET'}\n")
	for name, want := range map[string]string{"A": "from-the-env", "B": "$lower-case", "C": "x$NOT_SET"} {
		both(t, e, e.Base(), name, want)
	}
}

// TestSealsAreUndone: what was masked in any value is put back, and nothing of a
// secret is in the masked one.
func TestSealsAreUndone(t *testing.T) {
	const secret = "s3cret~/word"
	e := newWorld(t).must("secrets: {S: '" + secret + "'}")
	part := rapid.SampledFrom([]string{secret, "***", "", "plain", "~1", "/", "é", secret[:6], "x\n"})
	words := rapid.Custom(func(t *rapid.T) any { return strings.Join(rapid.SliceOfN(part, 0, 4).Draw(t, "parts"), "") })
	var values func(depth int) *rapid.Generator[any]
	values = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(words, rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "n") }))
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "list") }),
			rapid.Custom(func(t *rapid.T) any {
				return rapid.MapOfN(rapid.SampledFrom([]string{"a", "a/b", "a~1b", "~", ""}), values(depth-1), 0, 3).Draw(t, "map")
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		before := fmt.Sprintf("%#v", v)
		sealed, marks := e.Seal(v)
		if text := fmt.Sprintf("%#v", sealed); strings.Contains(text, secret) {
			t.Fatalf("the secret stands in %s", text)
		}
		if fmt.Sprintf("%#v", v) != before {
			t.Fatal("the value itself was changed")
		}
		if got := e.Unseal(sealed, marks); !reflect.DeepEqual(got, v) {
			t.Fatalf("%#v came back as %#v (%v)", v, got, marks)
		}
	})
}

// TestDates are those of date(1).
func TestDates(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for layout, want := range map[string]string{
		"": "2026-03-04T05:06:07Z", "%Y-%m-%d": "2026-03-04", "%H:%M:%S.%N": "05:06:07.000000008", "%s": fmt.Sprint(at.Unix()),
		"%j|%e|%y|%p": "063| 4|26|AM", "100%%": "100%", "%Q %": "%Q %", "2006": "2026", "%B %A %Z": "March Wednesday UTC",
	} {
		if got := strftime(layout, at); got != want {
			t.Errorf("date:%s is %q, want %q", layout, got, want)
		}
	}
}
