package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/crashtest"
	"github.com/bide-dev/bide/internal/event"
)

// Enumeration: in one run, the n-th effect of bide, of git or of a command on a file fails,
// or processes end there; this is done for each n. Then the run is resumed without trouble.
// The content of the branch, of the checkout and of the results must be what the workflow's
// text says. BIDE_ENUMERATE=1 takes every n (make enumerate). With 10 it takes every tenth,
// from a random one or from BIDE_ENUMERATE_FROM. Without it, a few random n are taken.
// BIDE_ENUMERATE_AT=n takes one.

// command gives the command whose effects are enumerated.
func (s scenario) command() []string {
	if s.does != nil {
		return s.does
	}
	if s.before != nil {
		return []string{"resume", "-y"}
	}
	return []string{"run", "-y", "flow.yml"}
}

// trouble is what happens at the n-th effect. A zero verdict means that the result would be
// the same as at another effect, or without trouble. before is the effect before.
type trouble struct {
	name string
	at   func(e, before crashtest.Effect, n, at int) crashtest.Verdict
}

func once(v crashtest.Verdict) func(crashtest.Effect, crashtest.Effect, int, int) crashtest.Verdict {
	return func(_, _ crashtest.Effect, n, at int) crashtest.Verdict {
		if n == at {
			return v
		}
		return crashtest.Verdict{}
	}
}

// refusal is the error for an effect on a full or a broken disk.
func refusal(e crashtest.Effect) crashtest.Verdict {
	switch e.Kind {
	case crashtest.Sync, crashtest.SyncAll:
		return crashtest.Verdict{Errno: int(syscall.EIO)}
	case crashtest.Exec:
		return crashtest.Verdict{Errno: int(syscall.EAGAIN)}
	case crashtest.Remove, crashtest.Rmdir, crashtest.Chmod:
		return crashtest.Verdict{Errno: int(syscall.EIO)}
	}
	return crashtest.Verdict{Errno: int(syscall.ENOSPC)}
}

var troubles = []trouble{
	{"all killed", func(_, before crashtest.Effect, n, at int) crashtest.Verdict {
		if n == at && before.Kind != crashtest.Exec && before.Kind != crashtest.Sync && before.Kind != crashtest.SyncAll {
			return crashtest.Verdict{End: crashtest.Everyone}
		}
		return crashtest.Verdict{} // the files are as before the effect before
	}},
	{"bide killed", once(crashtest.Verdict{End: crashtest.Main})},
	{"git killed", func(e, _ crashtest.Effect, n, at int) crashtest.Verdict {
		if n == at && strings.HasPrefix(e.Program, "git") {
			return crashtest.Verdict{End: crashtest.This}
		}
		return crashtest.Verdict{}
	}},
	{"fails once", func(e, _ crashtest.Effect, n, at int) crashtest.Verdict {
		if n == at {
			return refusal(e)
		}
		return crashtest.Verdict{}
	}},
	{"disk full", func(e, _ crashtest.Effect, n, at int) crashtest.Verdict {
		if v := refusal(e); n >= at && v.Errno == int(syscall.ENOSPC) {
			return v
		}
		return crashtest.Verdict{}
	}},
}

// stage is a scenario on its own directory, which can be put back to its beginning.
type stage struct {
	*bench
	scenario
	root  string
	began *crashtest.Disk
}

func newStage(t *testing.T, s scenario) *stage {
	t.Helper()
	if err := crashtest.Supported(); err != nil {
		t.Skip(err)
	}
	b := newBench(t)
	if s.repo {
		b.git()
	}
	b.write("flow.yml", s.flow)
	if s.repo {
		if err := sh(b.dir, "git add . && git commit -qm files && rm -rf .git/hooks/*"); err != nil {
			t.Fatal(err)
		}
	}
	b.write("mine.txt", "mine\n") // the user's, and not committed
	root := filepath.Dir(b.dir)
	b.setenv("TMPDIR", filepath.Join(root, "tmp"))
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	x := &stage{bench: b, scenario: s, root: root}
	if s.before != nil {
		s.before(x)
	}
	var err error
	if x.began, err = crashtest.NewDisk(root); err != nil {
		t.Fatal(err)
	}
	return x
}

// again puts the directory back to its beginning.
func (x *stage) again() {
	x.t.Helper()
	for _, dir := range []string{x.home, x.dir, x.ev} {
		if err := os.RemoveAll(dir); err != nil {
			x.t.Fatal(err)
		}
	}
	if err := x.began.Restore(); err != nil {
		x.t.Fatal(err)
	}
}

// counts reports whether a scenario is enumerated over an effect: starts of programs, and
// effects on files that are not the test's own.
func (x *stage) counts(e crashtest.Effect) bool {
	return (e.Below(x.root) || e.Kind == crashtest.Exec) && !e.Below(x.ev)
}

// play is playAll for the effects that count.
func (x *stage) play(decide func(crashtest.Effect) crashtest.Verdict, args ...string) (status int, said string) {
	x.t.Helper()
	return x.playAll(func(e crashtest.Effect) crashtest.Verdict {
		if !x.counts(e) {
			return crashtest.Verdict{}
		}
		return decide(e)
	}, args...)
}

// playAll runs bide and watches its effects. It gives the exit status, -1 if a signal ended
// bide, and what bide printed.
func (x *stage) playAll(decide func(crashtest.Effect) crashtest.Verdict, args ...string) (status int, said string) {
	x.t.Helper()
	self, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: self, Args: append([]string{"bide"}, args...), Dir: x.dir, Stdout: &out, Stderr: &out, WaitDelay: patience}
	cmd.Env = append(slices.Clone(x.opt.Environ), "BIDE_HOME="+x.home, partVar+"=bide")
	w, err := crashtest.Start(cmd, decide)
	if err != nil {
		x.t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	_ = w.Wait()
	return cmd.ProcessState.ExitCode(), out.String()
}

// plainly runs bide without trouble.
func (x *stage) plainly(args ...string) (status int, said string) {
	x.t.Helper()
	p := x.start("bide", args...)
	status = p.wait(x.t)
	x.quiet()
	return status, p.text()
}

// finish resumes until the run has ended, as a user would. story is what was printed.
func (x *stage) finish(status int, story string) (string, bool) {
	for range 5 {
		_, state := x.recordedEvents()
		died := state.Items.Counts().DeadLettered > 0
		if status == x.status && !died {
			return story, true
		}
		args := []string{"resume", "-y"}
		if x.runDir() == "" {
			args = []string{"run", "-y", "flow.yml"}
		} else if x.does != nil && state.Status != event.Running && state.Status != event.Interrupted && state.Status != event.Failed {
			if state.Status == event.Succeeded && len(x.wrong()) == 0 {
				return story + "\nthe record says that it succeeded", true
			}
			args = x.does // it had not begun, or has not ended
		} else if state.Status == event.Succeeded {
			return story + "\nthe record says that it succeeded", x.status == 0
		} else if died {
			args = []string{"dlq", "retry", "last", "-y"}
		}
		var said string
		status, said = x.plainly(args...)
		story += fmt.Sprintf("\n$ bide %s: %d\n%s", strings.Join(args, " "), status, said)
	}
	return story, status == x.status
}

// wrong compares all that is left with what the scenario expects.
func (x *stage) wrong() (out []string) {
	for name, want := range x.left {
		text, err := os.ReadFile(filepath.Join(x.ev, name))
		if err != nil || strings.TrimSpace(string(text)) != want {
			out = append(out, fmt.Sprintf("$EV/%s is %q (%v), want %q", name, text, err, want))
		}
	}
	if text, err := os.ReadFile(filepath.Join(x.dir, "mine.txt")); err != nil || string(text) != "mine\n" {
		out = append(out, fmt.Sprintf("the user's own file is %q (%v)", text, err))
	}
	if !x.repo {
		return out
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = x.dir, x.opt.Environ
		said, err := cmd.CombinedOutput()
		if err != nil {
			out = append(out, fmt.Sprintf("git %s: %v: %s", strings.Join(args, " "), err, said))
		}
		return string(said)
	}
	for _, name := range x.gone {
		if said, _ := exec.Command("git", "-C", x.dir, "ls-tree", "--name-only", "main", name).Output(); len(said) > 0 {
			out = append(out, name+" is on main, where it was removed")
		}
	}
	for name, want := range x.kept {
		if !x.isKept(name, want) {
			out = append(out, fmt.Sprintf("%s with %q is kept nowhere", name, want))
		}
		if said, _ := exec.Command("git", "-C", x.dir, "ls-tree", "--name-only", "main", name).Output(); len(said) > 0 {
			out = append(out, name+" is on main, where nobody wanted it")
		}
	}
	if _, state := x.recordedEvents(); !slices.Equal(state.LostWork, x.lost) {
		out = append(out, fmt.Sprintf("on record as lost: %q, want %q", state.LostWork, x.lost))
	}
	for name, want := range x.want {
		text, err := os.ReadFile(filepath.Join(x.dir, filepath.FromSlash(name)))
		if err != nil || string(text) != want {
			out = append(out, fmt.Sprintf("%s in the checkout is %q (%v), want %q", name, text, err, want))
		}
		if got := git("show", "main:"+name); got != want {
			out = append(out, fmt.Sprintf("%s on main is %q, want %q", name, got, want))
		}
	}
	subjects := strings.Split(git("log", "--no-merges", "--format=%s", "main"), "\n")
	for _, subject := range x.once {
		if n := len(slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return s != subject })); n != 1 {
			out = append(out, fmt.Sprintf("main has the commit %q %d times", subject, n))
		}
	}
	if said := git("status", "--porcelain"); said != "?? mine.txt\n" {
		out = append(out, fmt.Sprintf("git status of the checkout: %q", said))
	}
	if said := git("fsck", "--no-dangling", "--connectivity-only"); strings.Contains(said, "missing") || strings.Contains(said, "broken") {
		out = append(out, "git fsck: "+said)
	}
	if said := git("worktree", "list"); strings.Count(said, "\n") != 1 {
		out = append(out, "worktrees are left: "+said)
	}
	if said := git("for-each-ref", "--format=%(refname)", "refs/heads/bide-item/*/=*"); said != "" { // for no item
		out = append(out, "branches of nobody's work are left: "+said)
	}
	// The maintenance lock is from git in the commands, which starts maintenance in the
	// background.
	locks, _ := exec.Command("find", filepath.Join(x.dir, ".git"), "-name", "*.lock", "!", "-name", "bide.lock", "!", "-name", "maintenance.lock").CombinedOutput()
	if len(locks) > 0 {
		out = append(out, locksLeft+string(locks))
	}
	return out
}

// isKept says whether a branch beside main has a file, or a repository that was moved aside.
func (x *stage) isKept(name, want string) bool {
	aside, _ := filepath.Glob(filepath.Join(x.home, "worktrees", "*", "repositories", "*", filepath.FromSlash(name)))
	for _, path := range aside {
		if text, err := os.ReadFile(path); err == nil && string(text) == want {
			return true
		}
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = x.dir, x.opt.Environ
		said, _ := cmd.Output()
		return string(said)
	}
	for _, branch := range strings.Fields(git("for-each-ref", "--format=%(refname)", "refs/heads/bide", "refs/heads/bide-item")) {
		if git("show", branch+":"+name) == want {
			return true
		}
	}
	return false
}

// effects counts the effects of a run without trouble, whose results must be what the
// scenario expects.
func (x *stage) effects() int {
	x.t.Helper()
	x.again()
	n := 0
	status, said := x.play(func(crashtest.Effect) crashtest.Verdict { n++; return crashtest.Verdict{} }, x.command()...)
	if x.resumed {
		if status == x.status {
			x.t.Fatalf("without trouble, it is at its end: %s", said)
		}
		if story, ended := x.finish(status, said); ended {
			status = x.status
		} else {
			said = story
		}
	}
	if wrong := x.wrong(); status != x.status || len(wrong) > 0 {
		x.t.Fatalf("without trouble: exit status %d: %s\n%s", status, shorten(said), strings.Join(wrong, "\n"))
	}
	return n
}

// enumerated gives which of n places to try: all, one, or some random ones.
func enumerated(t *testing.T, n, some int) []int {
	t.Helper()
	if at, err := strconv.Atoi(os.Getenv("BIDE_ENUMERATE_AT")); err == nil {
		return []int{at}
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d places", seed, n)
	rnd := rand.New(rand.NewPCG(seed, 0))
	if every, err := strconv.Atoi(os.Getenv("BIDE_ENUMERATE")); err == nil && every > 0 {
		var out []int
		first := 1 + rnd.IntN(every)
		if at, err := strconv.Atoi(os.Getenv("BIDE_ENUMERATE_FROM")); err == nil {
			first = at
		}
		for at := first; at <= n; at += every {
			out = append(out, at)
		}
		return out
	}
	return rnd.Perm(n)[:min(n, some)]
}

// long says that more than the short form is asked for.
func long() bool {
	return os.Getenv("BIDE_ENUMERATE") != "" || os.Getenv("BIDE_ENUMERATE_AT") != ""
}

var onlyTrouble = os.Getenv("BIDE_ENUMERATE_TROUBLE")

// TestEveryEffect makes each effect of a run fail, or be the last one of its processes.
func TestEveryEffect(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios {
		for _, trouble := range troubles {
			if s.repo && trouble.name != "all killed" && !long() || trouble.name == "git killed" && !s.repo || onlyTrouble != "" && onlyTrouble != trouble.name {
				continue
			}
			t.Run(name+"/"+trouble.name, func(t *testing.T) {
				t.Parallel()
				x := newStage(t, s)
				tried, failed := 0, 0
				n := x.effects()
				for _, at := range enumerated(t, n, n) {
					ok, same := x.at(trouble, at)
					if !same {
						tried++
					}
					if !ok {
						failed++
					}
					if failed >= 20 {
						t.Fatal("and so on")
					}
					if (tried == 2 || tried == 1 && raceEnabled) && !long() {
						break
					}
				}
				t.Logf("%d places tried, of %d", tried, n)
			})
		}
	}
}

// at makes one run with trouble at one effect. same says that the result would be the same
// as at another effect.
func (x *stage) at(trouble trouble, at int) (ok, same bool) {
	x.t.Helper()
	x.again()
	n := 0
	var where, before crashtest.Effect
	status, said := x.play(func(e crashtest.Effect) crashtest.Verdict {
		n++
		v := trouble.at(e, before, n, at)
		if n == at {
			where = e
			if same = v == (crashtest.Verdict{}); same {
				v.End = crashtest.Everyone
			}
		}
		before = e
		return v
	}, x.command()...)
	x.quiet()
	if same {
		return true, true
	}
	story := fmt.Sprintf("$ bide %s: %d\n%s", strings.Join(x.command(), " "), status, said)
	story, ended := x.finish(status, story)
	wrong := x.wrong()
	if where.Kind == crashtest.Remove { // a lock that could not be removed is left
		wrong = slices.DeleteFunc(wrong, func(s string) bool { return s == locksLeft+where.Path+"\n" })
	}
	if ended && len(wrong) == 0 {
		return true, false
	}
	if !ended {
		wrong = append(wrong, "it does not come to its end")
	}
	x.t.Errorf("%s at effect %d (%v):\n%s\n%s", trouble.name, at, where, strings.Join(wrong, "\n"), shorten(story))
	return false, false
}

const locksLeft = "locks are left: "

var longLine = regexp.MustCompile(`(?m)^(.{300}).*$`)

func shorten(text string) string { return longLine.ReplaceAllString(text, "$1…") }
