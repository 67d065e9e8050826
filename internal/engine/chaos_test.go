package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// The crash tests run the real binary, end it with SIGKILL at some moment, and continue the
// run. Then they compare the journal with what happened outside: each step leaves a line in
// $EV/log.

func init() {
	parts["requeue"] = requeueMain
	parts["die-at"] = dieMain
}

// requeueMain runs all dead letters of the last run again.
func requeueMain() int {
	home, err := journal.Home()
	if err != nil {
		return complain(err)
	}
	store, err := journal.OpenStore(home)
	if err != nil {
		return complain(err)
	}
	sum, err := engine.RetryDeadLetters(context.Background(), "", engine.Options{Store: store}, letters.Requeue{})
	switch {
	case errors.Is(err, letters.ErrNoDeadLetters):
		return 9
	case err != nil:
		return complain(err)
	}
	return sum.ExitStatus()
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// chaosFlow is a map that has everything that takes time: setup with captured outputs,
// retries and waits of commands, retries and waits of items, an item that fails until
// $EV/mended exists, and reduce.
const chaosFlow = `
name: chaos
mode: mapreduce
durability: @DURABILITY@
isolation: @ISOLATION@
error_policy:
  max_recoveries: 1000
  retry_config: {max_attempts: 2, initial_delay: 40ms, backoff: fixed}
setup:
  commands:
    - shell: echo setup-one >> $EV/log; echo one
    - shell: echo setup-two >> $EV/log; sleep 0.02; echo two
      capture: second
  capture_outputs: {word: {command_index: 0}, other: {command_index: 1}}
map:
  input: items.json
  json_path: "$[*]"
  max_parallel: 3
  agent_template:
    - shell: |
        echo "start ${item.id} $BIDE_ATTEMPT $BIDE_RECOVERED" >> $EV/log
        sleep 0.0${item.n}
    - shell: |
        if [ ${item.kind} = command ] && [ ! -e $EV/tried-${item.id} ]; then touch $EV/tried-${item.id}; exit 1; fi
        if [ ${item.kind} = broken ] && [ ! -e $EV/mended ]; then exit 1; fi
      retry: {attempts: 2, initial_delay: 30ms, backoff: fixed}
    - shell: |
        if [ ${item.kind} = item ] && [ $BIDE_ATTEMPT = 1 ]; then exit 1; fi
        @WORK@
        echo "end ${item.id}" >> $EV/log
        echo out-${item.id}-${word}-${other}-${second}
reduce:
  - shell: echo reduce-one >> $EV/log; cp "${map.results_file}" $EV/results.jsonl; echo ${map.successful}/${map.total}
    capture: sum
  - shell: sleep 0.02; echo "reduce-two ${sum} ${word}" >> $EV/log
`

const chaosItems = 12

// tokens are the first words in $EV/log of steps that must not run again once their end is
// recorded, by the steps' paths.
var tokens = map[string]string{"setup[0]": "setup-one", "setup[1]": "setup-two", "reduce[0]": "reduce-one", "reduce[1]": "reduce-two"}

// trial is one run with its crashes.
type trial struct {
	*bench
	rnd       *rand.Rand
	git       bool
	strict    bool
	did       []string // for messages
	kills     *int
	killAfter func() time.Duration // of each process, after its start; negative: it is not killed
}

func newTrial(t *testing.T, kind string, rnd *rand.Rand) *trial {
	b := newBench(t)
	x := &trial{bench: b, rnd: rnd, git: kind == "git", strict: kind == "strict"}
	isolation, work, durability := "none", "true", "grouped"
	if x.git {
		b.git()
		isolation = "worktree"
		// An item whose work is merged does not run again. A step that a kill cut short
		// finds its changes uncommitted, so there is something to commit.
		work = "set -e; echo ${item.id} > made-${item.id}; git add .; git commit -qm ${item.id}"
	}
	if x.strict {
		durability = "strict"
	}
	kinds := []string{"plain", "command", "item", "plain", "broken", "plain"}
	var items []map[string]any
	for i := range chaosItems {
		items = append(items, map[string]any{"id": fmt.Sprintf("i%02d", i), "n": i % 4, "kind": kinds[i%len(kinds)]})
	}
	list, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	b.write("items.json", string(list))
	b.write("flow.yml", strings.NewReplacer("@DURABILITY@", durability, "@ISOLATION@", isolation, "@WORK@", work).Replace(chaosFlow))
	if x.git {
		if err := sh(b.dir, "git add . && git commit -qm files"); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// toll counts what the tests that kill have found, over all tests of this process.
var toll struct{ runs, kills, inGit, lost, twice, stuck, status atomic.Int64 }

// tollLine gives the toll in one line.
func tollLine() string {
	return fmt.Sprintf("%d kills, %d of them aimed at a git call, in %d runs: %d lost, %d twice, %d stuck, %d with a wrong exit status",
		toll.kills.Load(), toll.inGit.Load(), toll.runs.Load(), toll.lost.Load(), toll.twice.Load(), toll.stuck.Load(), toll.status.Load())
}

// blame ends a test of a run and counts the defect.
func (b *bench) blame(what *atomic.Int64, format string, args ...any) {
	b.t.Helper()
	what.Add(1)
	if chaos() > 0 { // the test may continue for hours
		fmt.Fprintln(os.Stderr, b.t.Name(), fmt.Sprintf(format, args...))
	}
	b.t.Fatalf(format, args...)
}

// chaos is BIDE_CHAOS, how many kills the tests of this process make; 0: few.
func chaos() int {
	n, err := strconv.Atoi(os.Getenv("BIDE_CHAOS"))
	if err != nil {
		return 0
	}
	return n
}

// every is from how many places a normal run of a test takes one, and 1 with BIDE_CHAOS. With the race
// detector, whose processes take three times as long, it is three times as many.
func every(n int) int {
	switch {
	case chaos() > 0:
		return 1
	case raceEnabled:
		return 3 * n
	}
	return n
}

var chaosSeed = sync.OnceValue(func() uint64 {
	if s, err := strconv.ParseUint(os.Getenv("BIDE_CHAOS_SEED"), 10, 64); err == nil {
		return s
	}
	return rand.Uint64()
})

// killing makes runs, each a test of its own that counts its kills, until these are a given
// percentage of all kills. Without BIDE_CHAOS it makes a few.
func killing(t *testing.T, percent, few int, run func(t *testing.T, i int, rnd *rand.Rand, kills *int)) {
	t.Helper()
	t.Logf("BIDE_CHAOS_SEED=%d", chaosSeed())
	side, share := 3, int64(chaos()*percent+99)/100
	if chaos() > 0 {
		side = 1 + percent/40 // the tests that kill run side by side
	}
	var next, killed, failed atomic.Int64
	var workers sync.WaitGroup
	for range side {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if chaos() > 0 && killed.Load() >= share || chaos() == 0 && i >= few || failed.Load() >= 10 {
					return
				}
				ok := t.Run(strconv.Itoa(i), func(t *testing.T) {
					kills := 0
					defer func() {
						killed.Add(int64(kills))
						toll.runs.Add(1)
						now := toll.kills.Add(int64(kills))
						if chaos() > 0 && now/100 > (now-int64(kills))/100 {
							fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), tollLine())
						}
					}()
					run(t, i, rand.New(rand.NewPCG(chaosSeed(), uint64(i))), &kills)
				})
				if !ok {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
}

// patience limits how long a test waits for what a process does. When it is over, the event
// never comes; it does not measure speed.
const patience = 2 * time.Minute

// process is a process of the binary under test that has not been waited for.
type process struct {
	*exec.Cmd
	out printed
	end chan error
}

// printed is what a process has printed so far.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func (p *process) text() string { return p.out.String() }

// waitFor waits until the process has printed a text.
func (p *process) waitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(p.text(), text); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not printed: %s", text, p.text())
		}
	}
}

// start starts the test binary as a part: the real program, or one of ours.
// BIDE_CHAOS_PROGRAM names another program that plays the real one.
func (b *bench) start(part string, args ...string) *process {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self, args...), end: make(chan error, 1)}
	p.Dir = b.dir
	p.Env = append(slices.Clone(b.opt.Environ), "BIDE_HOME="+b.home, partVar+"="+part)
	if program := os.Getenv("BIDE_CHAOS_PROGRAM"); part == "bide" && program != "" {
		p.Cmd = exec.Command(program, args...)
		p.Dir, p.Env = b.dir, append(slices.Clone(b.opt.Environ), "BIDE_HOME="+b.home)
	}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { p.end <- p.Wait() }()
	b.t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill() // of a test that failed
		}
	})
	return p
}

// wait gives the exit status; -1 if a signal ended the process.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.end:
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return p.ProcessState.ExitCode()
	case <-time.After(patience):
		toll.stuck.Add(1)
		alive, _ := exec.Command("ps", "-eo", "pid,ppid,stat,etime,wchan,args").Output() // without ps, the message has no processes
		_ = p.Process.Signal(syscall.SIGQUIT)                                            // prints its goroutines
		select {
		case <-p.end:
		case <-time.After(patience):
		}
		t.Fatalf("the process %d did not end:\n%s\n%s", p.Process.Pid, p.out.String(), alive)
		return 0
	}
}

// crash lets a process run for a time and then ends it with SIGKILL. If the process ended
// before that, it gives the exit status, and otherwise -1.
func (p *process) crash(t *testing.T, after time.Duration) int {
	t.Helper()
	if after >= 0 {
		select {
		case err := <-p.end:
			p.end <- err
		case <-time.After(after):
			if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
	}
	return p.wait(t)
}

// living lists the processes that have a text in their environment.
func living(text string) []string {
	var out []string
	if runtime.GOOS != "linux" {
		table, err := exec.Command("ps", "axeww").Output()
		if err != nil {
			return []string{err.Error()}
		}
		for line := range strings.Lines(string(table)) {
			if strings.Contains(line, text) {
				out = append(out, line)
			}
		}
		return out
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return []string{fmt.Sprintf("/proc cannot be read: %v", err)}
	}
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil || !bytes.Contains(env, []byte(text)) {
			continue // gone, or another user's
		}
		cmd, err := os.ReadFile("/proc/" + d.Name() + "/cmdline")
		if err == nil {
			out = append(out, d.Name()+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// quiet waits until no process of the bench is left.
func (b *bench) quiet() {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := living("EV=" + b.ev)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.blame(&toll.stuck, "processes are left running: %q", left)
		}
	}
}

// killAll ends all processes of the bench with SIGKILL, as when a container ends.
func (b *bench) killAll() {
	for _, line := range living("EV=" + b.ev) {
		number, _, _ := strings.Cut(line, " ")
		if pid, err := strconv.Atoi(number); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// lines gives the lines of $EV/log.
func (b *bench) lines() []string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.ev, "log"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// recordedEvents reads the journal of the only run; nil if there is none.
func (b *bench) recordedEvents() (events []event.Event, state *journal.State) {
	b.t.Helper()
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := store.Read("")
	if errors.As(err, new(*journal.NotFoundError)) {
		return nil, &journal.State{}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Events(b.t.Context(), 1, journal.EventFilter{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		events = append(events, e)
	}
	if state, err = r.State(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return events, state
}

// over gives the first words, and for items the first two, of lines that must not come any
// more: the ends of those steps are recorded.
func over(events []event.Event) map[string]bool {
	done := map[string]bool{}
	for _, e := range events {
		switch {
		case e.Type == event.ItemFinished && e.Status == event.Succeeded:
			done["start "+e.Item] = true
		case e.Type == event.StepFinished && e.Index == 0 && tokens[e.Step] != "":
			done[tokens[e.Step]] = true
		case e.Type == event.ItemRequeued: // reduce is to be done again
			delete(done, "reduce-one")
			delete(done, "reduce-two")
		}
	}
	return done
}

func key(line string) string {
	word, rest, _ := strings.Cut(line, " ")
	if word == "start" {
		id, _, _ := strings.Cut(rest, " ")
		return "start " + id
	}
	return word
}

// phase runs a part again and again, with crashes, until the part ends by itself.
func (x *trial) phase(begin []string, again func(events []event.Event, s *journal.State) []string) int {
	x.t.Helper()
	cmd := begin
	for {
		before := len(x.lines())
		events, _ := x.recordedEvents()
		done := over(events)
		started := time.Now()
		p := x.start(cmd[0], cmd[1:]...)
		status := p.crash(x.t, x.killAfter())
		if status < 0 && x.rnd.IntN(3) == 0 {
			x.killAll()
		}
		x.did = append(x.did, fmt.Sprintf("%v: %d after %v", cmd, status, time.Since(started).Round(time.Millisecond)))
		x.quiet()
		after, state := x.recordedEvents()
		if cmd[0] == "requeue" && slices.ContainsFunc(after[len(events):], func(e event.Event) bool { return e.Type == event.ItemRequeued }) {
			delete(done, "reduce-one")
			delete(done, "reduce-two")
		}
		for _, line := range x.lines()[before:] {
			if done[key(line)] {
				x.blame(&toll.twice, "%q ran again after its end was recorded; %v", line, x.did)
			}
		}
		x.checkStrict(after)
		if status >= 0 {
			x.did = append(x.did, p.out.String())
			return status
		}
		*x.kills++
		cmd = again(after, state)
		if cmd == nil {
			return -1
		}
	}
}

// checkStrict checks that with durability strict, each start that happened is on record.
func (x *trial) checkStrict(events []event.Event) {
	x.t.Helper()
	if !x.strict {
		return
	}
	began := map[string]bool{}
	for _, e := range events {
		if e.Type == event.ItemStarted {
			began["start "+e.Item] = true
		}
	}
	for _, line := range x.lines() {
		if strings.HasPrefix(line, "start ") && !began[key(line)] {
			x.blame(&toll.lost, "%q is not on record; %v", line, x.did)
		}
	}
}

// run takes the trial to its end and checks everything.
func (x *trial) run() {
	x.t.Helper()
	status := x.phase([]string{"bide", "run", "-y", "-q", "flow.yml"}, func(events []event.Event, s *journal.State) []string {
		switch {
		case s.Status == event.CompletedWithFailures:
			return nil // it was killed on its way out
		case events == nil && !x.hasRun():
			return []string{"bide", "run", "-y", "-q", "flow.yml"} // nothing was recorded
		}
		return []string{"bide", "resume", "-q"}
	})
	if status != 3 && status != -1 {
		x.blame(&toll.status, "exit status %d, want 3\n%s", status, strings.Join(x.did, "\n"))
	}
	if err := os.WriteFile(filepath.Join(x.ev, "mended"), nil, 0o644); err != nil {
		x.t.Fatal(err)
	}
	status = x.phase([]string{"requeue"}, func(events []event.Event, s *journal.State) []string {
		switch c := s.Items.Counts(); {
		case s.Status == event.Succeeded:
			return nil
		case c.DeadLettered > 0:
			return []string{"requeue"}
		}
		return []string{"bide", "resume", "-q"}
	})
	if status != 0 && status != -1 {
		for _, l := range x.letters() {
			x.did = append(x.did, fmt.Sprintf("item %s: %s %s", l.ID, l.Message, l.Letter))
		}
		x.blame(&toll.status, "exit status %d after the cause was mended, want 0\n%s", status, strings.Join(x.did, "\n"))
	}
	x.verify()
}

func (x *trial) hasRun() bool {
	dirs, err := filepath.Glob(filepath.Join(x.home, "runs", "[0-9A-Z]*"))
	if err != nil {
		x.t.Fatal(err)
	}
	return len(dirs) > 0
}

// verify checks the journal, the results, and what is left outside.
func (x *trial) verify() {
	x.t.Helper()
	fail := func(format string, args ...any) {
		x.t.Helper()
		x.blame(&toll.lost, "%s\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(x.did, "\n"), strings.Join(x.lines(), "\n"))
	}
	events, state := x.recordedEvents()
	if c := state.Items.Counts(); c.Total != chaosItems || c.Succeeded != chaosItems || state.Status != event.Succeeded {
		fail("the journal says %s, %+v", state.Status, c)
	}
	ends := map[string]int{}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			fail("event %d has the number %d", i+1, e.Seq)
		}
		if e.Type == event.ItemFinished && e.Status == event.Succeeded {
			ends[e.Item]++
		}
		if e.Type == event.ItemStarted && ends[e.Item] > 0 {
			x.blame(&toll.twice, "item %s was started after its end (event %d)", e.Item, e.Seq)
		}
	}
	var results []itemResult
	text, err := os.ReadFile(filepath.Join(x.ev, "results.jsonl"))
	if err == nil {
		results, err = resultLines(string(text))
	}
	if err != nil || len(results) != chaosItems {
		fail("reduce saw %d results: %v", len(results), err)
	}
	finished := map[string]bool{}
	for _, line := range x.lines() {
		if id, ok := strings.CutPrefix(line, "end "); ok {
			finished[id] = true
		}
	}
	for i, r := range results {
		id := fmt.Sprintf("i%02d", i)
		if r.ID != id || !r.Success || ends[id] != 1 || !finished[id] || r.Output != "out-"+id+"-one-two-two" {
			fail("item %s: result %+v, %d ends recorded, worked: %v", id, r, ends[id], finished[id])
		}
	}
	if last := x.lines()[len(x.lines())-1]; last != fmt.Sprintf("reduce-two %d/%d one", chaosItems, chaosItems) {
		fail("the last line is %q", last)
	}
	if x.git {
		x.verifyGit(fail)
	}
	drafts, err := filepath.Glob(filepath.Join(x.home, "runs", "*"))
	if err != nil || len(drafts) < 1 {
		fail("%v %v", drafts, err)
	}
}

// verifyGit checks that all work is on main, that all unmerged work has a branch, and that
// no worktree is left.
func (x *trial) verifyGit(fail func(string, ...any)) {
	x.t.Helper()
	for i := range chaosItems {
		id := fmt.Sprintf("i%02d", i)
		if got := x.output("git show main:made-" + id); got != id {
			fail("main has %q in made-%s", got, id)
		}
	}
	if got := x.output("git status --porcelain"); got != "" {
		fail("the user's tree has changes: %s", got)
	}
	if got := x.output("git worktree list --porcelain | grep -c ^worktree"); got != "1" {
		fail("worktrees are left: %s", x.output("git worktree list; git branch -a"))
	}
	// The work of attempts that were killed is kept in branches and can be found.
	repo, err := worktree.Open(x.t.Context(), x.dir)
	if err != nil {
		fail("%v", err)
	}
	known := map[string]bool{"main": true}
	left, err := repo.List(x.t.Context(), "")
	if err != nil {
		fail("%v", err)
	}
	for _, i := range left {
		known[i.Branch] = i.Item != ""
	}
	for _, branch := range strings.Fields(x.output("git for-each-ref --format='%(refname:short)' refs/heads")) {
		if !known[branch] {
			fail("the branch %s is left", branch)
		}
	}
	if got := x.output("git fsck --no-dangling 2>&1 | grep -v '^notice' || true"); got != "" {
		fail("git fsck: %s", got)
	}
}

// TestKilledAtRandomAndResumed tests the promise of the journal: after `kill -9` at any
// moment, also during a resume or a retry of dead letters, no item is lost, and no item
// whose end is recorded runs again.
func TestKilledAtRandomAndResumed(t *testing.T) {
	t.Parallel()
	killing(t, 35, 9, func(t *testing.T, i int, rnd *rand.Rand, kills *int) {
		kind := []string{"plain", "git", "strict"}[i%3]
		x := newTrial(t, kind, rnd)
		most := 1 + x.rnd.IntN(5)
		if chaos() > 0 {
			most += 4
		}
		span := 400 * time.Millisecond
		if x.git {
			span = 2 * time.Second
		}
		x.killAfter = func() time.Duration {
			if *kills >= most {
				return -1
			}
			return time.Duration(x.rnd.Int64N(int64(span)))
		}
		x.kills = kills
		x.run()
	})
}

// dieMain runs the workflow of the working directory and ends with SIGKILL at the event
// with a number, or with a type and an item (item_finished/b): immediately, or when the
// event is committed. What begins a life with facts of its own shows the first event behind
// them. With more arguments, it is another life of a run that has ended.
func dieMain() int {
	at, err := strconv.ParseInt(os.Args[1], 10, 64)
	kind, item, named := strings.Cut(os.Args[1], "/")
	if err != nil && !named {
		return complain(err)
	}
	committed, interrupted := os.Args[2] == "committed", os.Args[2] == "interrupted"
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	home, err := journal.Home()
	if err != nil {
		return complain(err)
	}
	store, err := journal.OpenStore(home)
	if err != nil {
		return complain(err)
	}
	die := event.SinkFunc(func(e event.Event) {
		if named && string(e.Type) == kind && e.Item == item {
			at = e.Seq
		}
		if named && e.Seq != at || e.Seq < at {
			return
		}
		if interrupted {
			interrupt()
			return
		}
		for committed {
			r, err := store.Read(e.Run)
			if err != nil {
				panic(err)
			}
			last, err := r.Last(context.Background())
			if cerr := r.Close(); err != nil || cerr != nil {
				panic(errors.Join(err, cerr))
			}
			if last >= at {
				break
			}
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	})
	opt := engine.Options{Store: store, Sinks: []event.Sink{die}}
	opt.Dir, opt.Yes = ".", slices.Contains(os.Args, "-y")
	if len(os.Args) > 4 {
		return dieAgain(ctx, opt, os.Args[4:])
	}
	return dieRun(ctx, opt)
}

// TestKilledAtEachEvent ends a small run at each of its events, before and after the event
// is committed, and then resumes it. The normal run takes some of the events.
func TestKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"at-once", "committed"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			step := every(3)
			for at := 1 + rand.IntN(step); killedAt(t, at, when); at += step {
				if at > 500 {
					t.Fatal("the run has no end")
				}
			}
		})
	}
}

// killedAt kills a run at an event and resumes it. It is false if the run has fewer events.
func killedAt(t *testing.T, at int, when string) bool {
	b := newBench(t)
	b.write("flow.yml", smallFlow)
	p := b.start("die-at", strconv.Itoa(at), when)
	status := p.wait(t)
	b.quiet()
	if status == 0 {
		if at < 50 {
			t.Fatalf("the run has only %d events", at-1)
		}
		return false
	}
	if status != -1 {
		t.Fatalf("event %d: exit status %d: %s", at, status, p.out.String())
	}
	before := len(b.lines())
	events, state := b.recordedEvents()
	if when == "committed" && len(events) < at {
		t.Fatalf("event %d: %d events are left of those that were committed", at, len(events))
	}
	done := over(events)
	for _, e := range events {
		if e.Type == event.StepFinished && e.Step == "agent_template[0]" {
			done["start "+e.Item] = true // and continues with the next step
		}
	}
	if state.Status == event.Succeeded {
		return true
	}
	r := b.start("bide", "resume", "-q")
	if status := r.wait(t); status != 0 {
		t.Fatalf("event %d: resume: exit status %d: %s", at, status, r.out.String())
	}
	b.quiet()
	for _, line := range b.lines()[before:] {
		if done[key(line)] {
			t.Errorf("event %d: %q ran again after its end was recorded", at, line)
		}
	}
	lines := b.lines()
	if lines[len(lines)-1] != "reduce-two 3 ok-a ok-b ok-c one" {
		t.Errorf("event %d: %q", at, lines)
	}
	return true
}

const smallFlow = `
name: small
mode: mapreduce
setup:
  commands:
    - shell: echo setup-one >> $EV/log; echo one
    - shell: echo setup-two >> $EV/log; echo '{"n":2}'
      capture: pair
      capture_format: json
  capture_outputs: {word: {command_index: 0}}
map:
  input: [{id: a}, {id: b}, {id: c}]
  max_parallel: 1
  agent_template:
    - shell: echo "start ${item.id}" >> $EV/log
    - shell: test -e $EV/once-${item.id} || { touch $EV/once-${item.id}; exit 1; }
      retry: {attempts: 4, initial_delay: 1ms, backoff: fixed}
    - shell: echo ok-${item.id}
reduce:
  - shell: echo reduce-one >> $EV/log; echo ${pair.n}
    capture: n
  - shell: echo "reduce-two $(( ${n} + 1 )) ${map.results[0].output} ${map.results[1].output} ${map.results[2].output} ${word}" >> $EV/log
`

func dieRun(ctx context.Context, opt engine.Options) int {
	file, problems := workflow.Load("flow.yml", workflow.Options{})
	if err := problems.Err(); err != nil {
		return complain(err)
	}
	opt.File = file
	sum, err := engine.Run(ctx, opt)
	if err != nil {
		return complain(err)
	}
	return sum.ExitStatus()
}
