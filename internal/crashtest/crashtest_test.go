package crashtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Launch()
	os.Exit(m.Run())
}

// run runs a shell text in a directory, watched.
func run(t *testing.T, dir, text string, decide func(Effect) Verdict) (out string, err error) {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: []string{"sh", "-c", text}, Dir: dir, Stdout: &b, Stderr: &b}
	w, err := Start(cmd, decide)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Wait()
	return b.String(), err
}

const gitText = `set -e
export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD
git init -q -b main . && git config user.email t@example.org && git config user.name T
mkdir sub; echo one > sub/one; echo two > two; ln -s two link; git add .; git commit -qm first
git checkout -q -b other; echo more >> two; mv sub/one sub/uno; git add -A; git commit -qm second
git checkout -q main; git merge -q --no-ff -m merged other; rm two; git worktree add -q --detach ../tree; git gc -q`

// TestDiskSeesAll: after a program full of effects the model has what the real
// directory has.
func TestDiskSeesAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := NewDisk(root)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	out, err := run(t, work, gitText, func(e Effect) Verdict {
		if e.Below(root) {
			n++
		}
		d.Apply(e)
		return Verdict{}
	})
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if diff := d.Differences(); len(diff) > 0 || n < 100 {
		t.Errorf("after %d effects: %s", n, strings.Join(diff, "\n"))
	}
	// What it has seen it can give again.
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("git", "-C", work, "fsck", "--strict").CombinedOutput(); err != nil {
		t.Errorf("git fsck: %v: %s", err, said)
	}
	if diff := d.Differences(); len(diff) > 0 {
		t.Errorf("restored: %s", strings.Join(diff, "\n"))
	}
}

// TestVerdicts: an effect fails, ends its process, or ends everyone before it is made.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	text := "echo a > a; (echo b > b; echo c > c); echo $? > status; echo d > d"
	at := func(path string, v Verdict) func(Effect) Verdict {
		return func(e Effect) Verdict {
			if e.Kind == Create && filepath.Base(e.Path) == path {
				return v
			}
			return Verdict{}
		}
	}
	for _, test := range []struct {
		name    string
		verdict Verdict
		left    []string
		status  string
	}{
		{"made", Verdict{}, []string{"a", "b", "c", "d", "status"}, "0\n"},
		{"failed", Verdict{Errno: int(unix.ENOSPC)}, []string{"a", "b", "d", "status"}, "2\n"},
		{"this", Verdict{End: This}, []string{"a", "b", "d", "status"}, "137\n"},
		{"everyone", Verdict{End: Everyone}, []string{"a", "b"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, _ := run(t, dir, text, at("c", test.verdict))
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			status, _ := os.ReadFile(filepath.Join(dir, "status"))
			if !slices.Equal(left, test.left) || string(status) != test.status {
				t.Errorf("left %q, status %q, want %q, %q: %s", left, status, test.left, test.status, out)
			}
		})
	}
}

// TestPowerCut: what was synced is there afterwards, and what was not is lost as chosen.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	all := func(int, int) bool { return true }
	for _, test := range []struct {
		name    string
		ordered bool
		effects []Effect
		loss    Loss
		want    map[string]string
	}{
		{"nothing synced", false, []Effect{{Kind: Create, Path: "/new", Flags: oCreat}, {Kind: Write, Path: "/new", Data: []byte("x")}, {Kind: Write, Path: "/old", Data: []byte("OLDER")}}, Loss{}, map[string]string{"/old": "old"}},
		{"a name without its data", false, []Effect{{Kind: Create, Path: "/new", Flags: oCreat}, {Kind: Write, Path: "/new", Data: []byte("x")}}, Loss{Name: all}, map[string]string{"/old": "old", "/new": ""}},
		{"data without its name", false, []Effect{{Kind: Create, Path: "/new", Flags: oCreat}, {Kind: Write, Path: "/new", Data: []byte("x")}, {Kind: Sync, Path: "/new"}}, Loss{}, map[string]string{"/old": "old"}},
		{"ordered, data brings its name", true, []Effect{{Kind: Create, Path: "/new", Flags: oCreat}, {Kind: Write, Path: "/new", Data: []byte("x")}, {Kind: Sync, Path: "/new"}}, Loss{}, map[string]string{"/old": "old", "/new": "x"}},
		{"both synced", false, []Effect{{Kind: Create, Path: "/new", Flags: oCreat}, {Kind: Write, Path: "/new", Data: []byte("x")}, {Kind: Sync, Path: "/new"}, {Kind: Sync, Path: ""}}, Loss{}, map[string]string{"/old": "old", "/new": "x"}},
		{"a rename that is lost", false, []Effect{{Kind: Rename, Path: "/old", To: "/moved"}}, Loss{}, map[string]string{"/old": "old"}},
		{"a rename over another", false, []Effect{{Kind: Create, Path: "/new", Flags: oCreat}, {Kind: Write, Path: "/new", Data: []byte("x")}, {Kind: Rename, Path: "/new", To: "/old"}, {Kind: Sync, Path: ""}}, Loss{}, map[string]string{"/old": ""}},
		{"syncfs", false, []Effect{{Kind: Mkdir, Path: "/d", Mode: 0o755}, {Kind: Create, Path: "/d/f", Flags: oCreat}, {Kind: Write, Path: "/d/f", Data: []byte("x")}, {Kind: Remove, Path: "/old"}, {Kind: SyncAll}}, Loss{}, map[string]string{"/d/f": "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.WriteFile(root+"/old", []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			d, err := NewDisk(root)
			if err != nil {
				t.Fatal(err)
			}
			d.Ordered = test.ordered
			for _, e := range test.effects {
				e.Path = root + e.Path
				if e.To != "" {
					e.To = root + e.To
				}
				d.Apply(e)
			}
			if err := d.Cut(test.loss).Write(); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			_ = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					text, _ := os.ReadFile(path)
					got[strings.TrimPrefix(path, root)] = string(text)
				}
				return err
			})
			if len(got) != len(test.want) {
				t.Errorf("left %q, want %q", got, test.want)
			}
			for path, want := range test.want {
				if text, ok := got[path]; !ok || text != want {
					t.Errorf("%s is %q (%v), want %q", path, text, ok, want)
				}
			}
		})
	}
}
