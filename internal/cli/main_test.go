package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/value"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if proc.CompanionMain() {
		return
	}
	// A program with the race detector sleeps for a second when it ends well.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if filepath.Base(os.Args[0]) != "bide" { // whose width a script may set
		if err := os.Unsetenv("COLUMNS"); err != nil {
			panic(err)
		}
	}
	testscript.Main(m, map[string]func(){
		"bide": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the real binary against real files, processes and git, as
// testdata/*.txtar say. Commands beside those of testscript:
//
//	holds FILE EXPR...   each expression holds of the JSON in the file; $ is its root, its members are names
//	each FILE EXPR...    the same of every line, of JSON lines
//	some FILE EXPR N     the expression holds of exactly N lines, or of N elements of an array
//	shape FILE [PATH] NAME:KIND...   the members of an object (or of each in an array) are these and no others; NAME? may be missing
//	appears FILE [TEXT]  waits until the file is there, and has the text in it
//	lastrun NAME [N]     sets the environment variable NAME to the id of the newest run, or the Nth newest, NAME_SHORT to its short name, and NAME_START to the characters that it begins with, more than a short name has
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("BIDE_HOME", filepath.Join(env.WorkDir, ".bide"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TZ", "UTC")
			for k, v := range map[string]string{"GORACE": os.Getenv("GORACE"), "MERGE_KILLS": os.Getenv("MERGE_KILLS"), "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org", "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1"} {
				env.Setenv(k, v)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"holds": holds, "each": each, "some": some, "shape": shape, "appears": appears, "lastrun": lastRun,
		},
	})
}

func parseJSON(ts *testscript.TestScript, text string) any {
	v, err := value.Parse([]byte(text))
	if err != nil {
		ts.Fatalf("no JSON: %v\n%s", err, text)
	}
	return v
}

// resolver makes a value the names of an expression.
func resolver(v any) expr.Resolver {
	return expr.ResolverFunc(func(p expr.Path) (any, bool) {
		if p[0].Name == "root" {
			return expr.Walk(v, p[1:])
		}
		return expr.Walk(v, p)
	})
}

func isTrue(ts *testscript.TestScript, src string, v any) bool {
	x, err := expr.Parse(src)
	ts.Check(err)
	ok, err := x.EvalBool(resolver(v))
	ts.Check(err)
	return ok
}

func holds(ts *testscript.TestScript, neg bool, args []string) {
	v := parseJSON(ts, ts.ReadFile(args[0]))
	for _, src := range args[1:] {
		if isTrue(ts, src, v) == neg {
			ts.Fatalf("%s is %v of\n%s", src, neg, ts.ReadFile(args[0]))
		}
	}
}

func jsonLines(ts *testscript.TestScript, file string) []any {
	text := ts.ReadFile(file)
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "[") {
		list, ok := parseJSON(ts, t).([]any)
		if !ok {
			ts.Fatalf("no list: %s", text)
		}
		return list
	}
	var out []any
	for line := range strings.Lines(text) {
		out = append(out, parseJSON(ts, line))
	}
	return out
}

func each(ts *testscript.TestScript, neg bool, args []string) {
	list := jsonLines(ts, args[0])
	if len(list) == 0 {
		ts.Fatalf("%s has no lines", args[0])
	}
	for _, v := range list {
		for _, src := range args[1:] {
			if isTrue(ts, src, v) == neg {
				ts.Fatalf("%s is %v of %v", src, neg, v)
			}
		}
	}
}

func some(ts *testscript.TestScript, neg bool, args []string) {
	n := 0
	for _, v := range jsonLines(ts, args[0]) {
		if isTrue(ts, args[1], v) {
			n++
		}
	}
	want := parseJSON(ts, args[2])
	if value.Equal(int64(n), want) == neg {
		ts.Fatalf("%s holds of %d, want %v, of\n%s", args[1], n, want, ts.ReadFile(args[0]))
	}
}

func shape(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	ts.Check(d.Decode(&v))
	args = args[1:]
	if !strings.Contains(args[0], ":") {
		p, err := expr.ParsePath(args[0])
		ts.Check(err)
		got, ok := resolver(v).Lookup(p)
		if !ok {
			ts.Fatalf("no %s in %v", args[0], v)
		}
		v, args = got, args[1:]
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) == 0 {
		ts.Fatalf("an empty list has no shape")
	}
	for _, v := range list {
		if bad := misfit(v, args); (bad != "") != neg {
			ts.Fatalf("%s: %v", bad, v)
		}
	}
}

// misfit says where a value does not have the members that are wanted.
func misfit(v any, want []string) string {
	m, ok := v.(map[string]any)
	if !ok {
		return "it is no object"
	}
	var known []string
	for _, w := range want {
		name, kind, _ := strings.Cut(w, ":")
		name, optional := strings.CutSuffix(name, "?")
		known = append(known, name)
		got, ok := m[name]
		if !ok {
			if !optional {
				return name + " is missing"
			}
			continue
		}
		if k := kindOf(got); k != kind && kind != "any" {
			return name + " is a " + k + ", not a " + kind
		}
	}
	for name := range m {
		if !slices.Contains(known, name) {
			return name + " is not documented"
		}
	}
	return ""
}

func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "time"
		}
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "null"
}

// patience bounds the waits for other processes: it says that something never comes,
// and not how fast it is.
const patience = 2 * time.Minute

func appears(ts *testscript.TestScript, neg bool, args []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && (len(args) == 1 || bytes.Contains(b, []byte(args[1]))) {
			return
		}
	}
	ts.Fatalf("%s does not appear", strings.Join(args, ": "))
}

func lastRun(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := os.ReadDir(filepath.Join(ts.Getenv("BIDE_HOME"), "runs"))
	ts.Check(err)
	n := 1
	if len(args) > 1 {
		n = int(args[1][0] - '0')
	}
	if len(entries) < n {
		ts.Fatalf("there are %d runs", len(entries))
	}
	id := entries[len(entries)-n].Name()
	ts.Setenv(args[0], id)
	ts.Setenv(args[0]+"_SHORT", id[len(id)-6:])
	ts.Setenv(args[0]+"_START", id[:10])
}
