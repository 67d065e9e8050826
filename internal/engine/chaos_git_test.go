package engine_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// Isolated maps are killed at their calls of git, bide's own and those of steps. A script
// before the real git on PATH kills bide, itself or all processes of the run: before, in or
// after the n-th call. The expected target branch and results come from the plan of the
// workflow, not from another run.

// fatalGit is that script. $FATAL is a directory. Its file pid has the number of bide's
// process. Its file at, if it exists, says which calls count, which of them it is, what is
// killed and when, and how long the call may run until then. The file of a call is made
// once.
const fatalGit = `#!/bin/sh
[ -e "$FATAL/at" ] || exec @GIT@ "$@"
read -r which n whom pause < "$FATAL/at"
if [ "$which" = writing ]; then
  case " $* " in
  *" rev-parse "*|*" status "*|*" diff "*|*" diff-tree "*|*" log "*|*" rev-list "*|*" merge-base "*|*" for-each-ref "*|*" ls-files "*|*" ls-tree "*|*" worktree list "*|*" config "*|*" show "*|*" version "*)
    exec @GIT@ "$@" ;;
  esac
fi
{ read -r k < "$FATAL/last"; } 2>/dev/null || k=0 # some call that was; all before it were, too
while k=$((k + 1)); do
  [ $k -le "$n" ] || exec @GIT@ "$@"
  if (set -C; true > "$FATAL/call-$k") 2>/dev/null; then break; fi
done
echo $k > "$FATAL/last"
[ $k = "$n" ] || exec @GIT@ "$@"
until read -r bide < "$FATAL/pid"; do :; done 2>/dev/null
echo "$*" > "$FATAL/killed"
exec 3<&0
case $whom in
  before-bide) kill -9 "$bide"; exec @GIT@ "$@" ;;
  before-both) kill -9 "$bide" $$ ;;
  after) @GIT@ "$@"; status=$?; kill -9 "$bide"; exit $status ;;
esac
@GIT@ "$@" <&3 3<&- &
git=$!
[ "$pause" = 0 ] || sleep "$pause"
case $whom in
  in-bide) kill -9 "$bide" ;;
  in-both) kill -9 "$bide" $git ;;
  in-git) kill -9 $git ;;
  in-all)
    kill -9 "$bide" $git
    for d in $(grep -lsz "^EV=$EV" /proc/[0-9]*/environ); do
      d=${d#/proc/}; d=${d%/environ}
      [ "$d" = $$ ] || kill -9 "$d"
    done 2>/dev/null
    kill -9 $$ ;;
esac
wait $git
status=$?
[ $whom != in-git ] || kill -9 $$ # a signal ended it, as it did the real one
exit $status
`

// fatal are the ways to be killed; a way that is in the list twice is tried twice as often.
var fatal = []string{"before-bide", "before-both", "after", "after", "in-bide", "in-bide", "in-both", "in-both", "in-both", "in-all", "in-all", "in-git"}

// fatalPlan is a random workflow with an isolated map.
type fatalPlan struct {
	items, parallel, files                                   int
	setup, setupCommits, commits, clash, large, totalCommits bool
	fails                                                    []bool // of items that fail once, late in the attempt, with something staged
}

func newFatalPlan(r *rand.Rand) *fatalPlan {
	yes := func(n int) bool { return r.IntN(n) == 0 }
	p := &fatalPlan{items: 1 + r.IntN(3), parallel: 1 + r.IntN(3), files: 2 + r.IntN(12), setup: yes(2), setupCommits: yes(2), commits: !yes(3), clash: yes(2), large: yes(4), totalCommits: yes(3)}
	for range p.items {
		p.fails = append(p.fails, yes(3))
	}
	return p
}

// file gives the workflow. A step that was cut short runs again in the tree as it left it,
// so each step can be done twice. What the branch has in the end counts.
func (p *fatalPlan) file() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("name: fatal\nmode: mapreduce\nisolation: worktree")
	line("error_policy: {max_recoveries: 1000, retry_config: {max_attempts: 3, initial_delay: 1ms, backoff: fixed}}")
	if p.setup {
		line("setup:\n  - shell: mkdir -p old; for i in 1 2 3 4; do echo old > old/i$i; done; echo setup > setup.txt")
		if p.setupCommits {
			line("  - shell: git add -A; git commit -qm setup")
		}
	}
	line("map:\n  input: [%s]\n  max_parallel: %d\n  agent_template:", strings.Join(p.ids("{id: %s}"), ", "), p.parallel)
	line("    - shell: echo \"start ${item.id}\" >> $EV/log; [ ! -e junk ] || echo \"${item.id} $BIDE_ATTEMPT has junk of an attempt before, in ${FATAL##*/}\" >> $EV/lost; mkdir -p out/${item.id}; for i in $(seq %d); do echo \"${item.id} $i\" > out/${item.id}/f$i; done", p.files)
	line("    - shell: |\n        set -e")
	line("        [ -e out/${item.id}/f1 ] || [ -e out/${item.id}/moved ] || echo \"${item.id} $BIDE_ATTEMPT has no file of the step before, in ${FATAL##*/}\" >> $EV/lost")
	line("        [ -e out/${item.id}/moved ] || mv out/${item.id}/f1 out/${item.id}/moved")
	if p.setup {
		line("        git rm -q --ignore-unmatch old/${item.id}")
	}
	if p.clash {
		line("        { cat both || true; echo ${item.id}; } 2>/dev/null | sort -u > both.new; mv both.new both")
	}
	for i, fails := range p.fails {
		if fails {
			line("        rm -f junk; git rm -q --cached --ignore-unmatch junk # of itself, where it was cut short")
			line("        if [ ${item.id} = i%d ] && [ ! -e $EV/failed-i%d ]; then touch $EV/failed-i%d; echo junk > junk; git add junk; exit 1; fi", i+1, i+1, i+1)
		}
	}
	if p.commits {
		line("    - shell: git add -A -- . ':!out/*/end'; git commit -qm \"work ${item.id}\"")
	}
	line("    - shell: echo end > out/${item.id}/end; %secho out-${item.id}", map[bool]string{true: "head -c 20000 /dev/zero | tr '\\0' x; "}[p.large])
	if p.clash {
		line("merge:\n  - shell: |\n      set -e")
		line("      if [ -e \"$(git rev-parse --git-path MERGE_HEAD)\" ]; then ours=$(git show :2:both); theirs=$(git show :3:both); printf '%%s\\n' \"$ours\" \"$theirs\" | sort -u > both; git add -A; git commit -qm resolved; fi")
	}
	line("reduce:\n  - shell: cp \"${map.results_file}\" $EV/results.jsonl; cat out/*/end | wc -l > total")
	if p.totalCommits {
		line("  - shell: git add -A; git commit -qm total")
	}
	return b.String()
}

func (p *fatalPlan) ids(format string) (out []string) {
	for i := range p.items {
		out = append(out, fmt.Sprintf(format, fmt.Sprintf("i%d", i+1)))
	}
	return out
}

// tree gives what the target branch must have in addition to its first content.
func (p *fatalPlan) tree() map[string]string {
	tree := map[string]string{"total": fmt.Sprintf("%d\n", p.items)}
	if p.setup {
		tree["setup.txt"] = "setup\n"
		for i := p.items + 1; i <= 4; i++ {
			tree[fmt.Sprintf("old/i%d", i)] = "old\n"
		}
	}
	if p.clash {
		tree["both"] = strings.Join(p.ids("%s\n"), "")
	}
	for _, id := range p.ids("%s") {
		tree["out/"+id+"/moved"] = id + " 1\n"
		tree["out/"+id+"/end"] = "end\n"
		for i := 2; i <= p.files; i++ {
			tree[fmt.Sprintf("out/%s/f%d", id, i)] = fmt.Sprintf("%s %d\n", id, i)
		}
	}
	return tree
}

// subjects gives the subjects of commits that the branch must have once. "total" is there
// once more for each retry of dead letters.
func (p *fatalPlan) subjects() (out []string) {
	if p.commits {
		out = p.ids("work %s")
	}
	if p.setup && p.setupCommits {
		out = append(out, "setup")
	}
	if p.totalCommits {
		out = append(out, "total")
	}
	return out
}

// fatalRun is a run of a plan.
type fatalRun struct {
	*bench
	plan  *fatalPlan
	rnd   *rand.Rand
	kills *int
	hurt  bool // git alone was killed: then steps and items may have failed
	again int  // how often dead letters were retried, after which reduce ran again
	did   []string
}

func newFatalRun(t *testing.T, rnd *rand.Rand) *fatalRun {
	t.Helper()
	x := &fatalRun{bench: newBench(t), plan: newFatalPlan(rnd), rnd: rnd}
	x.git()
	x.write("flow.yml", x.plan.file())
	if err := sh(x.dir, "git add . && git commit -qm flow"); err != nil {
		t.Fatal(err)
	}
	x.write("mine.txt", "of the user\n")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(x.dir)
	if err := sh(root, "mkdir -p bin && cat > bin/git <<'EOF'\n"+strings.ReplaceAll(fatalGit, "@GIT@", git)+"EOF\nchmod +x bin/git"); err != nil {
		t.Fatal(err)
	}
	return x
}

// life runs bide through one life, which ends at some call of git if it has enough calls.
// It gives the exit status, -1 for a kill.
func (x *fatalRun) life(kill bool, args ...string) int {
	x.t.Helper()
	dir := filepath.Join(filepath.Dir(x.dir), "fatal-"+strconv.Itoa(len(x.did)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		x.t.Fatal(err)
	}
	at := ""
	if kill {
		which, most := "any", 30
		if x.rnd.IntN(4) > 0 {
			which, most = "writing", 12
		}
		if x.rnd.IntN(5) == 0 {
			most *= 4
		}
		at = fmt.Sprintf("%s %d %s 0.%03d", which, 1+x.rnd.IntN(most), fatal[x.rnd.IntN(len(fatal))], x.rnd.IntN(8))
		at = strings.TrimSuffix(at, ".000")
		if err := os.WriteFile(filepath.Join(dir, "at"), []byte(at+"\n"), 0o644); err != nil {
			x.t.Fatal(err)
		}
	}
	environ := x.opt.Environ
	x.setenv("FATAL", dir)
	p := x.start("bide", args...)
	x.opt.Environ = environ
	if err := os.WriteFile(filepath.Join(dir, "pid.new"), []byte(strconv.Itoa(p.Process.Pid)+"\n"), 0o644); err != nil {
		x.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "pid.new"), filepath.Join(dir, "pid")); err != nil {
		x.t.Fatal(err)
	}
	status := p.wait(x.t)
	call, err := os.ReadFile(filepath.Join(dir, "killed"))
	x.did = append(x.did, fmt.Sprintf("$ bide %s: %d (%s: %.200s)\n%s", strings.Join(args, " "), status, at, call, shorten(p.text())))
	if err == nil {
		*x.kills++
		toll.inGit.Add(1)
		x.hurt = x.hurt || strings.Contains(at, "in-git")
	}
	return status
}

// story gives what happened.
func (x *fatalRun) story() string {
	var facts strings.Builder
	events, _ := x.recordedEvents()
	for _, e := range events {
		fmt.Fprintf(&facts, "%d %s %s %s %s %d %s\n", e.Seq, e.Type, e.Item, e.Step, e.Status, e.Attempt, e.Message)
	}
	return strings.Join(x.did, "\n") + "\n" + strings.Join(x.lines(), ", ") + "\n" + facts.String() + x.plan.file()
}

// TestKilledInGit kills isolated maps at calls of git.
func TestKilledInGit(t *testing.T) {
	t.Parallel()
	killing(t, 45, 4, func(t *testing.T, _ int, rnd *rand.Rand, kills *int) {
		x := newFatalRun(t, rnd)
		x.kills = kills
		most := 4 + rnd.IntN(12)
		if os.Getenv("BIDE_CHAOS_CALM") != "" {
			most = 0
		}
		args := []string{"run", "-y", "-q", "flow.yml"}
		for after := 0; ; {
			events, _ := x.recordedEvents()
			done, before := over(events), len(x.lines())
			status := x.life(*kills < most, args...)
			if x.rnd.IntN(3) > 0 {
				x.quiet()
			}
			for _, line := range x.lines()[before:] {
				if done[key(line)] {
					x.blame(&toll.twice, "%q ran again after its end was recorded\n%s", line, x.story())
				}
			}
			events, state := x.recordedEvents()
			if status == 0 || state.Status == event.Succeeded {
				break
			}
			if status > 0 && !x.hurt {
				x.blame(&toll.status, "exit status %d\n%s", status, x.story())
			}
			if *kills >= most || len(x.did) > 60 {
				if after++; after > 3 {
					x.blame(&toll.stuck, "it does not come to its end\n%s", x.story())
				}
			}
			switch {
			case events == nil && !(&trial{bench: x.bench}).hasRun():
			case state.Items.Counts().DeadLettered > 0 && status > 0:
				args = []string{"dlq", "retry", "last", "-y"}
				x.again++
			default:
				args = []string{"resume", "-y", "-q"}
			}
		}
		x.quiet()
		x.verify()
	})
}

// verify compares the target branch, the checkout and the results with the plan.
func (x *fatalRun) verify() {
	x.t.Helper()
	want := x.plan.tree()
	want["first.txt"] = "first\n"
	want["flow.yml"] = x.plan.file()
	has := x.contents("main")
	for name := range has {
		if _, ok := want[name]; !ok {
			x.blame(&toll.lost, "main has %s\n%s", name, x.story())
		}
	}
	for name, text := range want {
		if got, ok := has[name]; !ok || got != text {
			x.blame(&toll.lost, "%s on main is %q (%v), want %q\n%s", name, got, ok, text, x.story())
		}
		got, err := os.ReadFile(filepath.Join(x.dir, name))
		if err != nil || string(got) != text {
			x.blame(&toll.lost, "%s in the checkout is %q (%v), want %q\n%s", name, got, err, text, x.story())
		}
	}
	log := strings.Split(x.output("git log --format=%s main"), "\n")
	for _, subject := range x.plan.subjects() {
		if n := len(slices.DeleteFunc(slices.Clone(log), func(s string) bool { return s != subject })); n < 1 || n > 1 && (subject != "total" || n > 1+x.again) {
			x.blame(&toll.twice, "main has the commit %q %d times: %q\n%s", subject, n, log, x.story())
		}
	}
	log = strings.Split(x.output("git log --merges --format=%s main"), "\n")
	for _, id := range x.plan.ids("%s") {
		if n := len(slices.DeleteFunc(slices.Clone(log), func(s string) bool { return s != "bide: item "+id })); n > 1 {
			x.blame(&toll.twice, "%s was merged %d times: %q\n%s", id, n, log, x.story())
		}
	}
	var results []itemResult
	text, err := os.ReadFile(filepath.Join(x.ev, "results.jsonl"))
	if err == nil {
		results, err = resultLines(string(text))
	}
	if err != nil || len(results) != x.plan.items {
		x.blame(&toll.lost, "reduce saw %d results: %v\n%s", len(results), err, x.story())
	}
	for i, r := range results {
		id := fmt.Sprintf("i%d", i+1)
		said := "out-" + id
		if x.plan.large {
			said = strings.Repeat("x", 20000) + said
		}
		if !r.Success || strings.TrimSpace(r.Output) != said {
			x.blame(&toll.lost, "the result of %s is %.200q of %d bytes\n%s", id, r.Output, len(r.Output), x.story())
		}
	}
	if left := (&gitRun{bench: x.bench}).left(); left != "" {
		x.blame(&toll.stuck, "left: %s\n%s", left, x.story())
	}
}

// contents gives the files of a commit.
func (b *bench) contents(name string) map[string]string {
	b.t.Helper()
	cmd := exec.Command("git", "archive", "--format=tar", name)
	cmd.Dir = b.dir
	archive, err := cmd.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		text, rerr := io.ReadAll(r)
		if err != nil || rerr != nil {
			b.t.Fatal(err, rerr)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = string(text)
		}
	}
}
